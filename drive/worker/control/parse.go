package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// ParseConfig parses and validates a Config document. Unknown fields, wrong types,
// trailing text and values out of range are errors with exit code 2.
func ParseConfig(data []byte) (Config, error) {
	var config Config
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return Config{}, errs.Usage("worker configuration: at byte %d: %w", decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Config{}, errs.Usage("worker configuration: text after the document, at byte %d", decoder.InputOffset())
	}
	if config.Schema != 0 && config.Schema != Schema {
		return Config{}, errs.Usage("worker configuration: schema %d, this worker speaks %d", config.Schema, Schema)
	}
	return config, config.Validate()
}
