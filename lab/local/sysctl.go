package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// inotifyInstances is a machine-wide limit, counted per user: every sidecar needs three
// instances and all sidecars run as one user, so the usual 128 suffice for only about
// forty pods. It is the only setting of the host that a lab raises; the record keeps
// the old value, and Down restores it unless someone else has set it since.
const (
	inotifyInstances = "fs/inotify/max_user_instances"
	needInotify      = 8192
)

// raisable maps the settings to restore to the values that labs raise them to. Tests
// add a harmless one.
var raisable = map[string]int{inotifyInstances: needInotify}

// sysctls reads and writes sysctls below a folder, /proc/sys.
type sysctls struct{ root string }

func (s sysctls) read(name string) (int, error) {
	data, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// toRaise returns the current value of a sysctl, for the record, if it is below what
// the lab needs.
func (s sysctls) toRaise(name string, need int) (map[string]int, error) {
	now, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) || now >= need {
		return nil, nil
	}
	return map[string]int{name: now}, err
}

// set writes sysctls; failure to write any is an error.
func (s sysctls) set(values map[string]int) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("set %s to %d: %w", strings.ReplaceAll(name, "/", "."), value, err)
		}
	}
	return nil
}

// restore reverts sysctls that still have the value that labs raise them to. While
// another lab is running, it only records the values in the file pending; the last lab
// to end reverts them.
func (s sysctls) restore(values map[string]int, pending string, othersRun bool) error {
	all, noted := map[string]int{}, map[string]int{}
	if data, err := os.ReadFile(pending); err == nil {
		if err := json.Unmarshal(data, &noted); err != nil {
			return fmt.Errorf("%s: %w", pending, err)
		}
	}
	maps.Copy(all, noted) // nil if the file contains null
	maps.Copy(all, values)
	// Root writes these, so a name that no lab ever raised must be ignored.
	maps.DeleteFunc(all, func(name string, _ int) bool { return raisable[name] == 0 })
	if len(all) == 0 {
		return nil
	}
	if othersRun {
		return writeJSON(pending, all)
	}
	maps.DeleteFunc(all, func(name string, _ int) bool {
		now, err := s.read(name)
		return err == nil && now != raisable[name] // set by someone else
	})
	if err := s.set(all); err != nil {
		return err
	}
	if err := os.Remove(pending); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restoreControls is restore for this machine when the labs ids end. It takes a turn,
// since a starting lab does not yet have a link that reveals it.
func restoreControls(ctx context.Context, values map[string]int, pending string, ids map[string]bool) error {
	endTurn, err := takeTurn(ctx, turnSocket)
	if err != nil {
		return err
	}
	defer endTurn()
	return sysctls{"/proc/sys"}.restore(values, pending, othersRun(ids))
}

// othersRun reports whether the host has a link to a lab that is not in ids.
func othersRun(ids map[string]bool) bool {
	interfaces, _ := net.Interfaces()
	return slices.ContainsFunc(interfaces, func(i net.Interface) bool {
		id, ok := strings.CutPrefix(i.Name, hostInterface(""))
		return ok && validID(id) && !ids[id]
	})
}
