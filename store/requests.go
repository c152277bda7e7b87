package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// requestsSuffix ends the name of a trial's file of requests: lines of JSON,
// packed by Zstandard.
const requestsSuffix = ".jsonl.zst"

// maxRequestsMemory bounds what unpacking takes, in bytes.
const maxRequestsMemory = 64 << 20

// WriteRequests stores what was written about each request of a trial, as
// package ledger writes a book, packed by Zstandard, under requests/, and
// returns its path relative to the run directory. It must come before Append.
func (d *Dir) WriteRequests(trialID string, data []byte) (string, error) {
	if !reTrialID.MatchString(trialID) {
		return "", fmt.Errorf("trial ID %q cannot name a file", trialID)
	}
	if err := d.need(DirRequests); err != nil {
		return "", err
	}
	name := DirRequests + "/" + trialID + requestsSuffix
	return name, d.WriteFile(name, data)
}

// OpenRequests opens what [Dir.WriteRequests] stored of a trial in the run
// directory at path, unpacked. The error is fs.ErrNotExist if there is nothing.
func OpenRequests(path, trialID string) (io.ReadCloser, error) {
	if !reTrialID.MatchString(trialID) {
		return nil, fmt.Errorf("trial ID %q cannot name a file", trialID)
	}
	file, err := openFile(path, DirRequests+"/"+trialID+requestsSuffix)
	if err != nil {
		return nil, err
	}
	unpacked, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRequestsMemory), zstd.WithDecoderMaxWindow(maxRequestsMemory/2))
	if err != nil {
		return nil, damaged(path, errors.Join(err, file.Close()))
	}
	return &requestsReader{unpacked, file}, nil
}

// requestsReader is an unpacked file.
type requestsReader struct {
	*zstd.Decoder
	file *os.File
}

// Close ends both.
func (r *requestsReader) Close() error {
	r.Decoder.Close()
	return r.file.Close()
}

// OpenProfile opens a file that [Dir.WriteProfile] stored, by the name that it
// gave it, in the run directory at path.
func OpenProfile(path, name string) (io.ReadCloser, error) {
	dir, file, ok := strings.Cut(name, "/")
	if !ok || dir != DirProfiles || !filepath.IsLocal(file) || strings.Contains(file, "/") {
		return nil, fmt.Errorf("%q is no profile of a run", name)
	}
	return openFile(path, DirProfiles+"/"+file)
}
