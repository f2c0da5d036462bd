// Package keys reads checkpoints by Go's note package, with cosignatures (C2SP tlog-cosignature) as a further kind of key.
package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"interop/note"
	"interop/tlog"
)

// Largest is the largest size that every reader of JSON keeps exactly.
const Largest = 1<<53 - 1

// Cosigner is the key of a witness, which signs with the time.
type Cosigner struct {
	Named string
	Key   ed25519.PublicKey
}

func (c Cosigner) Name() string { return c.Named }

func (c Cosigner) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(c.Named+"\n\x04"), c.Key...))
	return binary.BigEndian.Uint32(sum[:])
}

func (c Cosigner) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at < 1<<63 && ed25519.Verify(c.Key, Signed(msg, at), sig[8:])
}

// Signed is what a witness signs about a text at a time.
func Signed(msg []byte, at uint64) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), msg...)
}

func verifier(vkey string) (note.Verifier, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) == 3 {
		if key, err := Base64(parts[2]); err == nil && len(key) == 33 && key[0] == 4 {
			found := Cosigner{parts[0], key[1:]}
			if fmt.Sprintf("%08x", found.KeyHash()) != parts[1] {
				return nil, errors.New("the key has another id")
			}
			return found, nil
		}
	}
	return note.NewVerifier(vkey)
}

// Base64 reads the one spelling that clvlab reads; Go's decoder passes over line ends, and unless strict over other last bits.
func Base64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("a line end in base64")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// Number reads a decimal without leading zeroes.
func Number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > Largest || strconv.FormatInt(n, 10) != text {
		return 0, errors.New("no number: " + text)
	}
	return n, nil
}

// Hash reads a hash in base64.
func Hash(text string) (tlog.Hash, error) {
	data, err := Base64(text)
	if err != nil || len(data) != tlog.HashSize {
		return tlog.Hash{}, errors.New("no hash: " + text)
	}
	return tlog.Hash(data), nil
}

// Tree reads the text of a checkpoint: origin, size, root, and lines that are not read.
func Tree(text string) (origin string, tree tlog.Tree, err error) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			return "", tree, errors.New("an empty line in a checkpoint")
		}
	}
	if len(lines) < 4 {
		return "", tree, errors.New("no checkpoint")
	}
	if tree.N, err = Number(lines[1]); err == nil {
		tree.Hash, err = Hash(lines[2])
	}
	return lines[0], tree, err
}

// Checkpoint opens a note that the first key, of its log, must have signed, and every other key too.
func Checkpoint(msg []byte, vkeys []string) (tree tlog.Tree, said string, err error) {
	var known []note.Verifier
	for _, vkey := range vkeys {
		key, err := verifier(vkey)
		if err != nil {
			return tree, "", err
		}
		known = append(known, key)
	}
	found, err := note.Open(msg, note.VerifierList(known...))
	if err != nil {
		return tree, "", err
	}
	for _, one := range append(found.Sigs, found.UnverifiedSigs...) {
		if _, err := Base64(one.Base64); err != nil {
			return tree, "", err
		}
	}
	if len(found.Sigs) != len(known) {
		return tree, "", fmt.Errorf("%d of %d keys signed", len(found.Sigs), len(known))
	}
	origin, tree, err := Tree(found.Text)
	if err == nil && origin != known[0].Name() {
		err = errors.New("the checkpoint is another log's")
	}
	return tree, fmt.Sprintf("signed by %q and %d witnesses", origin, len(known)-1), err
}
