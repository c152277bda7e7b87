package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// requestsSuffix is the suffix of a trial's file of requests: JSON lines,
// compressed with Zstandard.
const requestsSuffix = ".jsonl.zst"

const (
	// maxRequestsMemory limits the memory for decompression, in bytes.
	maxRequestsMemory = 64 << 20
	// A trial's file may decompress to maxRequests bytes, or to maxRatio times its
	// own size if that is more. Real requests differ and compress to about a
	// tenth, but a small file can contain any number of equal lines.
	maxRequests = 8 << 30
	maxRatio    = 100
)

// WriteRequests stores a trial's per-request log in the format of package ledger's
// books, compressed with Zstandard, under requests/, and returns its path relative
// to the run directory. It must be called before Append.
func (d *Dir) WriteRequests(trialID string, data []byte) (string, error) {
	if !reTrialID.MatchString(trialID) {
		return "", fmt.Errorf("trial ID %q is not a valid file name", trialID)
	}
	if err := d.need(DirRequests); err != nil {
		return "", err
	}
	name := DirRequests + "/" + trialID + requestsSuffix
	return name, d.WriteFile(name, data)
}

// OpenRequests opens the decompressed log of a trial stored by [Dir.WriteRequests]
// in the run directory at path. The error is fs.ErrNotExist if there is none.
func OpenRequests(path, trialID string) (io.ReadCloser, error) {
	if !reTrialID.MatchString(trialID) {
		return nil, fmt.Errorf("trial ID %q is not a valid file name", trialID)
	}
	file, err := openFile(path, DirRequests+"/"+trialID+requestsSuffix)
	if err != nil {
		return nil, err
	}
	var unpacked *requestsReader
	info, err := file.Stat()
	if err == nil {
		unpacked, err = unpackRequests(file, mostUnpacked(info.Size()))
	}
	if err != nil {
		return nil, damaged(path, errors.Join(err, file.Close()))
	}
	unpacked.file, unpacked.path, unpacked.name = file, path, filepath.Base(file.Name())
	return unpacked, nil
}

// mostUnpacked returns the maximum decompressed size of a file.
func mostUnpacked(packed int64) int64 { return max(maxRequests, maxRatio*packed) }

// requestsReader reads a decompressed file.
type requestsReader struct {
	decoder    *zstd.Decoder
	left       int64 // remaining bytes allowed
	most       int64
	path, name string
	file       io.Closer
}

func unpackRequests(packed io.Reader, most int64) (*requestsReader, error) {
	decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRequestsMemory), zstd.WithDecoderMaxWindow(maxRequestsMemory/2))
	return &requestsReader{decoder: decoder, left: most, most: most}, err
}

// Read fails if the content exceeds the limit.
func (r *requestsReader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, r.tooLong()
	}
	n, err := r.decoder.Read(p[:min(int64(len(p)), r.left+1)])
	if r.left -= int64(n); r.left < 0 {
		return n - 1, r.tooLong()
	}
	return n, err
}

func (r *requestsReader) tooLong() error {
	err := fmt.Errorf("it unpacks to more than %d bytes", r.most)
	if r.file == nil {
		return err
	}
	return damaged(r.path, fmt.Errorf("%s: %w", r.name, err))
}

// Close closes both.
func (r *requestsReader) Close() error {
	r.decoder.Close()
	return r.file.Close()
}

// OpenProfile opens a file stored by [Dir.WriteProfile] in the run directory at
// path, by the name that it returned.
func OpenProfile(path, name string) (io.ReadCloser, error) {
	dir, file, ok := strings.Cut(name, "/")
	if !ok || dir != DirProfiles || !filepath.IsLocal(file) || strings.Contains(file, "/") {
		return nil, fmt.Errorf("%q is not a profile of a run", name)
	}
	return openFile(path, DirProfiles+"/"+file)
}
