package local

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// StartedByOther says whether the lab was started by another program than the
// one at path: its pods' roles are that one, and may speak another version of
// what this one says to them.
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
	started, err := digest(running)
	if err != nil {
		return false, err
	}
	now, err := digest(path)
	return !bytes.Equal(started, now), err
}

func digest(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
