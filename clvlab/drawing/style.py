"""The style of cards and pages: the viewer's own ink, on light and on dark."""

STYLE = """
.clvlab{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:60rem;color:inherit}
.clvlab h4{margin:.2rem 0 .5rem;font-size:14px;font-weight:600}
.clvlab table{border-collapse:collapse;margin:.3rem 0 .7rem;color:inherit}
.clvlab th,.clvlab td{text-align:left!important;padding:.2rem .8rem .2rem 0;border-bottom:1px solid rgba(128,128,128,.3);
 vertical-align:top;background:none!important;color:inherit!important;overflow-wrap:anywhere}
.clvlab th{font-weight:600;white-space:nowrap}.clvlab td:first-child{white-space:nowrap}
.clvlab td.n,.clvlab th.n{text-align:right!important;font-variant-numeric:tabular-nums;white-space:nowrap}
.clvlab td em{opacity:.7;font-size:12px}
.clvlab abbr{text-decoration:none;border-bottom:1px dotted rgba(128,128,128,.7);cursor:help}
.clvlab code{font-size:12px;background:none!important;color:inherit!important;padding:0!important}
.clvlab .pass{color:#1a7f37}.clvlab .fail{color:#cf222e;font-weight:600}.clvlab .quiet{opacity:.65}
.clvlab td span{white-space:nowrap}
.clvlab span.pass,.clvlab span.fail,.clvlab span.open{border:1px solid currentColor;border-radius:.8em;padding:0 .55em}
.clvlab span.open{opacity:.75}
.clvlab p{margin:.3rem 0}
.clvlab h5{margin:.9rem 0 .2rem;font-size:13px;font-weight:600}.clvlab .wide{overflow-x:auto}
.clvlab .wide.whole td{white-space:nowrap}
.clvlab .figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:.8rem;margin:.6rem 0}
.clvlab .figures>div{max-width:32rem}
.clvlab .verdict{font-size:15px;font-weight:600;margin:.2rem 0 .5rem;max-width:46rem}
.clvlab .verdict.beats::before{content:"\u25b2\u00a0";color:#1a7f37}
.clvlab .verdict.loses::before{content:"\u25bc\u00a0";color:#cf222e}
.clvlab .verdict:is(.unclear,.nothing)::before{content:"\u25c6\u00a0";color:#8a8a8a}
.clvlab .drawn{display:contents!important}.clvlab .untrusted{display:none}
.clvlab svg[height]{display:block;overflow:visible}.clvlab svg:not([height]){width:100%;height:auto}
.clvlab svg{stroke-linejoin:round;stroke-linecap:butt}
.clvlab details{margin:.5rem 0;border-top:1px solid rgba(128,128,128,.3);padding-top:.3rem}
.clvlab summary{cursor:pointer;font-weight:600;padding:.15rem 0}
.clvlab .strip{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.5rem 0}
.clvlab .strip dt{float:none!important;width:auto!important;font-size:12px;opacity:.7;font-weight:400}
.clvlab .strip dd{margin:0!important;padding:0!important;width:auto!important;font-weight:600;font-variant-numeric:tabular-nums}
.clvlab .strip>div{min-width:5rem}
.clvlab .marks{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;list-style:none;margin:.5rem 0;padding:0}
.clvlab .marks li{white-space:nowrap;margin:0}.clvlab .marks span{border:0!important;padding:0!important}
.clvlab table.forest{width:100%;table-layout:auto}.clvlab table.forest td.picture{width:30%;min-width:5rem;padding-top:.1rem}
.clvlab pre{max-height:22rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px;color:inherit;
 background:none;border:1px solid rgba(128,128,128,.3);padding:.5rem;margin:.3rem 0}
.clvlab fieldset{border:1px dashed rgba(128,128,128,.6);margin:.6rem 0;padding:0 .7rem;min-width:0}
.clvlab legend{font-size:12px;opacity:.8;padding:0 .3rem;width:auto;color:inherit;border:0;margin:0}
@media(prefers-color-scheme:dark){.clvlab .verdict.beats::before,.clvlab .pass{color:#3fb950}
 .clvlab .verdict.loses::before,.clvlab .fail{color:#ff7b72}}
[data-jp-theme-light=false] .clvlab .pass,[data-jp-theme-light=false] .clvlab .verdict.beats::before{color:#3fb950}
[data-jp-theme-light=false] .clvlab .fail,[data-jp-theme-light=false] .clvlab .verdict.loses::before{color:#ff7b72}
[data-jp-theme-light=true] .clvlab .pass{color:#1a7f37}[data-jp-theme-light=true] .clvlab .fail{color:#cf222e}
""".strip()

# A page has its own width: it stands in the middle, and on a narrow one first columns break so that values stay in sight.
PAGE_STYLE = """
body{margin:1.5rem auto;max-width:60rem;padding:0 clamp(.75rem,3vw,1.5rem);overflow-wrap:anywhere}
@media(max-width:40rem){body .clvlab .wide table{font-size:12px}body .clvlab .wide :is(th,td){padding-right:.5rem}
 body .clvlab .wide td{overflow-wrap:break-word}body .clvlab .wide code{overflow-wrap:anywhere}
 body .clvlab .wide td:first-child:not(.n){white-space:normal;overflow-wrap:anywhere;min-width:6.5rem}}
""".strip()
