package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
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
	text, err := tail(path, FileLog, maxLastWords)
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

// tail reads the end of a file of the run at path, "" if there is none, or no
// plain one.
func tail(path, name string, most int64) (string, error) {
	f, err := openFile(path, name)
	if errors.Is(err, fs.ErrNotExist) || errs.Code(err) == errs.CodeUsage {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	return string(text), err
}
