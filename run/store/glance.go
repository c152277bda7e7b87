package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Writers has the directories locked by processes of this machine.
type Writers map[inode]bool

// inode identifies a file. File systems without a device (major number 0) get the minor number 0,
// since /proc/locks and stat disagree on it.
type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(major, minor uint32, number uint64) inode {
	if major == 0 {
		minor = 0
	}
	return inode{major, minor, number}
}

// ReadWriters reads /proc/locks, because trying a lock could make a concurrent attempt by a
// writer fail.
func ReadWriters() Writers {
	file, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer file.Close()
	return parseLocks(file)
}

// parseLocks parses lines such as "1: FLOCK ADVISORY WRITE 7 fe:00:9977865 0 EOF".
func parseLocks(r io.Reader) Writers {
	out := Writers{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[3] != "WRITE" {
			continue
		}
		var major, minor uint32
		var number uint64
		if n, err := fmt.Sscanf(fields[5], "%x:%x:%d", &major, &minor, &number); n == 3 && err == nil {
			out[inodeOf(major, minor, number)] = true
		}
	}
	return out
}

// Have reports whether a process is writing to the run directory at path.
func (w Writers) Have(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && w[inodeOf(unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)]
}

// Version returns a value that changes with a run's trials, findings or header, without reading
// them.
func Version(path string) string {
	var out strings.Builder
	for _, name := range []string{FileHeader, FileTrials, FileFindings} {
		if info, err := os.Lstat(filepath.Join(path, name)); err == nil {
			fmt.Fprintf(&out, "%x-%x.", info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

// CountTrials counts the lines of ended trials, readable or not.
func CountTrials(path string) (int, error) {
	file, err := openFile(path, FileTrials)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, buffer := 0, make([]byte, 1<<16)
	for {
		read, err := file.Read(buffer)
		n += bytes.Count(buffer[:read], []byte{'\n'})
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// ReadFindings reads the findings written when a run ended, if they cover that many trials and
// have at most limit bytes. Otherwise current is false.
func ReadFindings(path string, trials int, limit int64) (f record.Findings, current bool, err error) {
	made, err := os.Lstat(filepath.Join(path, FileFindings))
	if err != nil || made.Size() > limit {
		return f, false, nil
	}
	data, err := readFile(path, FileFindings, limit)
	if err != nil {
		return f, false, damaged(path, err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, false, damaged(path, fmt.Errorf("%s: %w", FileFindings, err))
	}
	if f.Schema != record.Schema {
		return f, false, errs.Usage("%s has schema %d, this meshtrial reads %d", path, f.Schema, record.Schema)
	}
	return f, f.Validity.Trials == trials, nil
}
