// A witness of logs (C2SP tlog-witness) on Go's own tlog and note packages. It shares no code with clvlab.
//
//	witness ADDRESS NAME STATE LOG_KEY
//
// It prints its public key. STATE is a file with its private seed in hex and the last checkpoint that it signed.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"interop/keys"
	"interop/note"
	"interop/tlog"
)

type witness struct {
	lock  sync.Mutex
	name  string
	state string
	seed  ed25519.PrivateKey
	vkey  string
	last  tlog.Tree
}

func (w *witness) load() error {
	text, err := os.ReadFile(w.state)
	if os.IsNotExist(err) {
		_, w.seed, err = ed25519.GenerateKey(rand.Reader)
		if err == nil {
			err = w.save()
		}
		return err
	}
	if err != nil {
		return err
	}
	head, checkpoint, _ := strings.Cut(string(text), "\n")
	seed, err := hex.DecodeString(head)
	if err != nil || len(seed) != ed25519.SeedSize {
		return fmt.Errorf("no seed in %s", w.state)
	}
	w.seed = ed25519.NewKeyFromSeed(seed)
	if checkpoint != "" {
		_, w.last, err = keys.Tree(checkpoint)
	}
	return err
}

func (w *witness) save() error {
	text := hex.EncodeToString(w.seed.Seed()) + "\n"
	if w.last.N > 0 {
		text += fmt.Sprintf("log\n%d\n%s\n", w.last.N, w.last.Hash)
	}
	if err := os.WriteFile(w.state+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(w.state+".new", w.state)
}

// cosign answers one request with a status, the kind of its text, and the text.
func (w *witness) cosign(body string) (int, string, string) {
	head, msg, found := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	old, err := keys.Number(strings.TrimPrefix(lines[0], "old "))
	if !found || err != nil || !strings.HasPrefix(lines[0], "old ") || len(lines) > 64 {
		return 400, "text/plain", "no request\n"
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		hash, err := keys.Hash(line)
		if err != nil {
			return 400, "text/plain", "no hash\n"
		}
		proof = append(proof, hash)
	}
	if origin, _, _ := strings.Cut(msg, "\n"); origin != strings.SplitN(w.vkey, "+", 2)[0] {
		return 404, "text/plain", "this log is not watched here\n"
	}
	tree, _, err := keys.Checkpoint([]byte(msg), []string{w.vkey})
	if err != nil {
		return 403, "text/plain", err.Error() + "\n"
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	switch {
	case old > tree.N:
		return 400, "text/plain", "the log shrank\n"
	case old != w.last.N:
		return 409, "text/x.tlog.size", fmt.Sprintf("%d\n", w.last.N)
	case old == tree.N && old > 0 && tree.Hash != w.last.Hash:
		return 409, "text/plain", "two roots of one size\n"
	case old == 0 && len(proof) > 0, old > 0 && tlog.CheckTree(proof, tree.N, tree.Hash, old, w.last.Hash) != nil:
		return 422, "text/plain", "the proof does not hold\n"
	}
	w.last = tree
	if err := w.save(); err != nil {
		return 500, "text/plain", "the state can't be kept\n"
	}
	text := msg[:strings.LastIndex(msg, "\n\n")+1]
	line, err := note.Sign(&note.Note{Text: text}, w)
	if err != nil {
		return 500, "text/plain", "no signature\n"
	}
	return 200, "text/plain", string(line[len(text)+1:])
}

func (w *witness) public() keys.Cosigner {
	return keys.Cosigner{Named: w.name, Key: w.seed.Public().(ed25519.PublicKey)}
}
func (w *witness) Name() string    { return w.name }
func (w *witness) KeyHash() uint32 { return w.public().KeyHash() }
func (w *witness) Sign(msg []byte) ([]byte, error) {
	at := uint64(time.Now().Unix())
	return append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(w.seed, keys.Signed(msg, at))...), nil
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: witness ADDRESS NAME STATE LOG_KEY")
	}
	w := &witness{name: os.Args[2], state: os.Args[3], vkey: os.Args[4]}
	if err := w.load(); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /add-checkpoint", func(out http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, 1<<18))
		if err != nil {
			return
		}
		status, kind, text := w.cosign(string(body))
		out.Header().Set("Content-Type", kind)
		out.WriteHeader(status)
		io.WriteString(out, text)
	})
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(append([]byte{4}, w.public().Key...))
	fmt.Printf("%s+%08x+%s http://%s\n", w.name, w.KeyHash(), key, listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
