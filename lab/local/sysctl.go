package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// inotifyInstances is a limit of the whole machine, counted by user: every
// sidecar needs three instances, and all sidecars run as one user, so that
// the usual 128 are gone after some forty pods. It is the one setting of the
// host that a lab raises; the record keeps the old value, and Down puts it
// back.
const (
	inotifyInstances = "fs/inotify/max_user_instances"
	needInotify      = 8192
)

// sysctls reads and writes system controls below a folder, /proc/sys.
type sysctls struct{ root string }

func (s sysctls) read(name string) (int, error) {
	data, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// toRaise returns the present value of a control that is below what the lab
// needs, as the record keeps it.
func (s sysctls) toRaise(name string, need int) (map[string]int, error) {
	now, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) || now >= need {
		return nil, nil
	}
	return map[string]int{name: now}, err
}

// set writes controls; one that cannot be written is an error.
func (s sysctls) set(values map[string]int) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("set %s to %d: %w", strings.ReplaceAll(name, "/", "."), value, err)
		}
	}
	return nil
}
