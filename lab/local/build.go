package local

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// StartedByOther reports whether another program than the one at path started the lab:
// its roles are that program, and may speak another version of the protocol.
func (l *Lab) StartedByOther(path string) (bool, error) {
	running := fmt.Sprintf("/proc/%d/exe", l.record.InitPID)
	a, err := os.Stat(running)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if os.SameFile(a, b) {
		return false, nil
	}
	started, err := Digest(running)
	if err != nil {
		return false, err
	}
	now, err := Digest(path)
	return started != now, err
}

// Digest is "sha256:" and the sum of a file.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}
