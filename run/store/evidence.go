package store

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	evidenceSuffix = ".json.zst"
	// maxEvidence limits the decompressed size of a trial's evidence, in bytes.
	maxEvidence = 1 << 30
)

// EvidenceFile returns the path of a trial's evidence, relative to the run
// directory.
func EvidenceFile(trialID string) string { return DirEvidence + "/" + trialID + evidenceSuffix }

// WriteEvidence stores a trial's evidence, a JSON document, compressed with
// Zstandard, under evidence/. It must be called before Append.
func (d *Dir) WriteEvidence(trialID string, document []byte) error {
	if !reTrialID.MatchString(trialID) {
		return fmt.Errorf("trial ID %q is not a valid file name", trialID)
	}
	if err := d.need(DirEvidence); err != nil {
		return err
	}
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	packed := packer.EncodeAll(document, nil)
	if err := packer.Close(); err != nil {
		return err
	}
	return d.WriteFile(EvidenceFile(trialID), packed)
}

// ReadEvidence returns the evidence of a trial stored by [Dir.WriteEvidence] in
// the run directory at path. The error is fs.ErrNotExist if there is none.
func ReadEvidence(path, trialID string) ([]byte, error) {
	if !reTrialID.MatchString(trialID) {
		return nil, fmt.Errorf("trial ID %q is not a valid file name", trialID)
	}
	file, err := openFile(path, EvidenceFile(trialID))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unpacked, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, damaged(path, err)
	}
	defer unpacked.Close()
	data, err := io.ReadAll(io.LimitReader(unpacked, maxEvidence+1))
	if err == nil && len(data) > maxEvidence {
		err = fmt.Errorf("more than %d bytes", maxEvidence)
	}
	if err != nil {
		return nil, damaged(path, fmt.Errorf("evidence of trial %s: %w", trialID, err))
	}
	return data, nil
}
