// A verifier of logs on Go's own tlog and note packages. It shares no code with clvlab.
//
//	verifier tiles FOLDER LOG_KEY [WITNESS_KEY...]
//	verifier proof FILE ENTRY LOG_KEY [WITNESS_KEY...]
//	verifier duel < cases
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"interop/keys"
	"interop/tlog"
)

const width = 256

type files func(path string) ([]byte, error)

func (f files) Height() int                         { return 8 }
func (f files) SaveTiles(_ []tlog.Tile, _ [][]byte) {}
func (f files) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, t := range tiles { // Go writes tile/8/L/N, the specification tile/L/N
		data, err := f(strings.Replace(t.Path(), "tile/8/", "tile/", 1))
		if err != nil || len(data) != 32*t.W {
			return nil, fmt.Errorf("tile %s: %v", t.Path(), err)
		}
		found = append(found, data)
	}
	return found, nil
}

// checkTiles hashes every entry of a log, and compares it with every tile and the signed root.
func checkTiles(f files, vkeys []string) (string, error) {
	msg, err := f("checkpoint")
	if err != nil {
		return "", err
	}
	tree, said, err := keys.Checkpoint(msg, vkeys)
	if err != nil {
		return "", err
	}
	reader := tlog.TileHashReader(tree, f)
	if tree.N == 0 && tree.Hash != sha256.Sum256(nil) {
		return "", errors.New("an empty log has another root")
	}
	for first := int64(0); first < tree.N; first += width {
		t := tlog.Tile{H: 8, L: 0, N: first / width, W: int(min(width, tree.N-first))}
		entries, err := f(strings.Replace(t.Path(), "tile/8/0/", "tile/entries/", 1))
		if err != nil {
			return "", err
		}
		var indexes []int64
		for i := int64(0); i < int64(t.W); i++ {
			indexes = append(indexes, tlog.StoredHashIndex(0, first+i))
		}
		hashes, err := reader.ReadHashes(indexes)
		if err != nil {
			return "", err
		}
		for i, want := range hashes {
			if len(entries) < 2 || len(entries) < 2+int(entries[0])<<8+int(entries[1]) {
				return "", fmt.Errorf("entry %d is cut off", first+int64(i))
			}
			end := 2 + int(entries[0])<<8 + int(entries[1])
			if tlog.RecordHash(entries[2:end]) != want {
				return "", fmt.Errorf("entry %d is not the one that was hashed", first+int64(i))
			}
			entries = entries[end:]
		}
		if len(entries) != 0 {
			return "", errors.New("bytes after the last entry of a bundle")
		}
	}
	return fmt.Sprintf("%d entries, %s", tree.N, said), checkUpper(tree, reader)
}

// checkUpper reads each hash of the tiles above the entries, which a partial tile may hold unseen.
func checkUpper(tree tlog.Tree, reader tlog.HashReader) error {
	for level, count := 8, tree.N/width; count > 0; level, count = level+8, count/width {
		for n := int64(0); n < count; n++ {
			if _, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(level, n)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkProof checks an entry by a file in the form of C2SP tlog-proof.
func checkProof(text, entry []byte, vkeys []string) (string, error) {
	head, note, found := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if !found || lines[0] != "c2sp.org/tlog-proof@v1" {
		return "", errors.New("no proof")
	}
	if lines = lines[1:]; len(lines) > 0 && strings.HasPrefix(lines[0], "extra ") {
		if _, err := keys.Base64(lines[0][6:]); err != nil {
			return "", err
		}
		lines = lines[1:]
	}
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "index ") {
		return "", errors.New("no index")
	}
	index, err := keys.Number(lines[0][6:])
	if err != nil || len(lines) > 64 {
		return "", errors.New("no index, or too many hashes")
	}
	var proof tlog.RecordProof
	for _, line := range lines[1:] {
		hash, err := keys.Hash(line)
		if err != nil {
			return "", err
		}
		proof = append(proof, hash)
	}
	tree, said, err := keys.Checkpoint([]byte(note), vkeys)
	if err != nil {
		return "", err
	}
	if err := tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry)); err != nil {
		return "", err
	}
	return fmt.Sprintf("entry %d of %d, %s", index, tree.N, said), nil
}

type duel struct {
	Kind          string
	Keys          []string
	Note, Entry   []byte
	Files         map[string][]byte
	Index, Size   int64
	Proof         [][]byte
	Root, Earlier []byte
}

func hashes(all [][]byte) (found []tlog.Hash, err error) {
	for _, one := range all {
		if len(one) != tlog.HashSize {
			return nil, errors.New("no hash")
		}
		found = append(found, tlog.Hash(one))
	}
	return found, nil
}

func (d duel) verdict() (err error) {
	switch d.Kind {
	case "tiles":
		_, err = checkTiles(func(path string) ([]byte, error) {
			if data, known := d.Files[path]; known {
				return data, nil
			}
			return nil, errors.New("missing: " + path)
		}, d.Keys)
	case "note":
		_, _, err = keys.Checkpoint(d.Note, d.Keys)
	case "proof":
		_, err = checkProof(d.Note, d.Entry, d.Keys)
	default:
		proof, bad := hashes(append(d.Proof, d.Root, d.Earlier))
		if bad != nil {
			return bad
		}
		last := len(proof) - 2
		if d.Kind == "inclusion" {
			return tlog.CheckRecord(proof[:last], d.Size, proof[last], d.Index, tlog.RecordHash(d.Entry))
		}
		return tlog.CheckTree(proof[:last], d.Size, proof[last], d.Index, proof[last+1])
	}
	return err
}

func judge() error {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	cases := json.NewDecoder(in)
	for cases.More() {
		var d duel
		if err := cases.Decode(&d); err != nil {
			return err
		}
		verdict := "pass"
		if err := d.verdict(); err != nil {
			verdict = strconv.Quote(err.Error())
		}
		fmt.Fprintln(out, verdict)
	}
	return nil
}

func main() {
	said, err := "", errors.New("usage: verifier tiles FOLDER KEY... | proof FILE ENTRY KEY... | duel")
	switch args := os.Args[1:]; {
	case len(args) > 2 && args[0] == "tiles":
		said, err = checkTiles(func(path string) ([]byte, error) {
			return os.ReadFile(filepath.Join(args[1], path))
		}, args[2:])
	case len(args) > 3 && args[0] == "proof":
		var text, entry []byte
		if text, err = os.ReadFile(args[1]); err == nil {
			if entry, err = os.ReadFile(args[2]); err == nil {
				said, err = checkProof(text, entry, args[3:])
			}
		}
	case len(args) == 1 && args[0] == "duel":
		err = judge()
	}
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	if said != "" {
		fmt.Println("holds:", said)
	}
}
