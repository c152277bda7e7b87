package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// CheckStored is the name of the check that fails for a trial whose records
// were lost after it was stored.
const CheckStored = "stored"

// mostNotes limits the notes of each kind from a reader.
const mostNotes = 5

// loss collects missing parts of a run's directory that do not prevent the rest
// from being read. With a nil *loss the first such fault is an error.
type loss struct {
	first error // of an unreadable line; nil if all are readable
	short error // of a trial with missing events; nil if there is none
	trial bool  // a trial's own line is lost
	notes []string
	left  int // omitted notes
	// doubt has the incomplete trials, with the reason.
	doubt map[string]string
}

// line records an unreadable line, or returns its error.
func (l *loss) line(err error) error {
	if l == nil {
		return err
	}
	if l.first == nil {
		l.first = err
	}
	l.note(fmt.Sprintf("%v: the line was skipped", err))
	return nil
}

func (l *loss) note(text string) {
	if len(l.notes) == mostNotes {
		l.left++
		return
	}
	l.notes = append(l.notes, text)
}

// of records that a trial is incomplete.
func (l *loss) of(trial, why string) {
	if l.doubt == nil {
		l.doubt = map[string]string{}
	}
	if trial != "" && l.doubt[trial] == "" {
		l.doubt[trial] = why
	}
}

// allNotes returns the notes, including the number of omitted ones.
func (l *loss) allNotes() []string {
	if l.left == 0 {
		return l.notes
	}
	return append(l.notes[:len(l.notes):len(l.notes)], fmt.Sprintf("%d more of this kind", l.left))
}

// judge marks incomplete trials invalid.
func (l *loss) judge(trials []record.Trial) {
	for i := range trials {
		if why := l.doubt[trials[i].ID]; why != "" {
			trials[i].Validity.Valid = false
			trials[i].Validity.Checks = append(trials[i].Validity.Checks, record.Check{Name: CheckStored, Detail: why})
		}
	}
}

// damaged describes the run that cannot be read, and what can be done about it.
// It is an input error: exit code 2.
func damaged(path string, err error) error {
	hint := errs.Hint(err)
	if hint == "" {
		hint = "restore that file from a copy of the run directory; without a copy, run the study again"
	}
	return errs.WithHint(errs.WithCode(fmt.Errorf("run %s is damaged: %w", path, err), errs.CodeUsage), "%s", hint)
}

// plain rejects and closes anything other than a regular file.
func plain(file *os.File) (*os.File, error) {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notPlain(file.Name(), kindOf(info.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func notPlain(path, kind string) error {
	return errs.WithHint(errs.Usage("%s is not a regular file but %s", filepath.Base(path), kind),
		"restore the file itself from a copy of the run directory")
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Limits of the files of a run that are read at once, in bytes. No run comes
// close; a larger file is not one of meshtrial's.
const (
	maxFile   = 64 << 20 // study, header
	maxTrials = 1 << 30  // trials, findings
)

// readFile reads a file of the run at path, of at most limit bytes.
func readFile(path, name string, limit int64) ([]byte, error) {
	file, err := openFile(path, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var data []byte
	if info.Size() <= limit {
		data, err = io.ReadAll(io.LimitReader(file, limit+1)) // it may be growing
	}
	if err == nil && max(info.Size(), int64(len(data))) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", filepath.Base(name), limit)
	}
	return data, err
}
