"""The style of the explorer: where its parts stand, in the ink of the page."""

# The ink of the figure follows the page, whatever its theme; what plotly draws on its own ground keeps its own. The record
# stands beside the chart where there is room, and below it where there is none.
STYLE = """<style>
.clvlab-explorer{color:var(--jp-content-font-color1,inherit);container-type:inline-size}
.clvlab-explorer .infolayer text,.clvlab-explorer .xaxislayer-above text,.clvlab-explorer .yaxislayer-above text
{fill:currentColor!important}
.clvlab-explorer .js-plotly-plot{width:100%}
.clvlab-explorer .clvlab-stage{display:grid;grid-template-columns:minmax(0,1fr);gap:.5rem 1rem;align-items:start;width:100%}
.clvlab-explorer .clvlab-record{margin:0;overflow:visible;height:auto;width:auto!important;min-width:0}
.clvlab-explorer .clvlab-record>*{min-width:0;width:100%}.clvlab-explorer .clvlab-chart{min-width:0}
.clvlab-explorer .clvlab-record .clvlab{font-size:12px;overflow-wrap:anywhere}
.clvlab-explorer .clvlab-record :is(th,td){padding-right:.4rem}
.clvlab-explorer kbd{font:inherit;border:1px solid rgba(128,128,128,.6);border-radius:3px;padding:0 .3em}
.clvlab-explorer .legend{display:flex;flex-wrap:wrap;gap:0 1.1rem;list-style:none;margin:0;padding:0 0 0 3.2rem}
.clvlab-explorer .legend li{margin:0;white-space:nowrap}.clvlab-explorer .legend span{font-weight:700}
.clvlab-explorer .clvlab-record .clvlab h4{margin-top:0}
@container (min-width:44rem){.clvlab-explorer .clvlab-stage{grid-template-columns:minmax(0,1fr) clamp(17rem,28%,22rem)}}
</style>"""
