// Package jsonl stores the results of a bench so far in a file with one JSON
// value per line, so that a bench can be ended at any time and resumes where it
// was.
package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Read reads the existing lines; none if there is no file. It ignores a partial
// last line, which a crashed bench may leave.
func Read[T any](path string) ([]T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []T
	for i, text := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var l T
		if err := json.Unmarshal(text, &l); err != nil {
			if i == bytes.Count(data, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// Append appends a line, replacing a partial last one.
func Append(path string, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if n := len(data); n > 0 && data[n-1] != '\n' {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}
