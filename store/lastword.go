package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Begins follows "trial ID" in the line of [FileLog] that tells a trial's
// begin, in kinds of study whose trials tell what they do while they last.
const Begins = " begins"

// maxLastWords is how much of the log's end is looked at.
const maxLastWords = 256 << 10

// lastWords says, by the log, which trial was under way when the run ended, and
// what was done last. "" if none was, or nobody knows.
func lastWords(path string, ended []record.Trial) (string, error) {
	text, err := tail(filepath.Join(path, FileLog), maxLastWords)
	if err != nil {
		return "", err
	}
	id, last := "", ""
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written, or was
		}
		if last = strings.TrimSpace(line); strings.HasSuffix(last, Begins) {
			if fields := strings.Fields(last); len(fields) == 4 && fields[1] == "trial" {
				id = fields[2]
			}
		}
	}
	if id == "" || slices.ContainsFunc(ended, func(t record.Trial) bool { return t.ID == id }) {
		return "", nil
	}
	return fmt.Sprintf("trial %s did not end; the last that %s says of it is %q", id, FileLog, last), nil
}

// tail reads the end of a file, "" if there is none, or no plain one.
func tail(path string, most int64) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	from := max(0, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	return string(text), err
}
