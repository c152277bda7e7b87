package local

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// recordSchema is the version of lab.json. The fields that versions share suffice to
// clean up after a record of another version.
const recordSchema = 1

// Phases of a lab in its record.
const (
	phaseStarting = "starting" // Up is running; init ends if Up dies
	phaseReady    = "ready"    // Up is done; init lives on without it
)

// record is lab.json: everything that a lab may leave outside its namespaces. It is
// written before any of that is made.
type record struct {
	Schema    int       `json:"schema"`
	ID        string    `json:"id"`
	Phase     string    `json:"phase"`
	BootID    string    `json:"boot_id"`
	Started   time.Time `json:"started"`
	InitPID   int       `json:"init_pid,omitempty"`
	InitStart uint64    `json:"init_start_ticks,omitempty"` // distinguishes a reused PID
	// ForRun is the process that the lab was started for and that takes it down at
	// its end; nil for a lab that stays.
	ForRun        *procfs.Identity `json:"for_run,omitempty"`
	HostInterface string           `json:"host_interface"`
	Network       network          `json:"network"`
	Cgroup        string           `json:"cgroup"`      // name of the lab's group in every hierarchy
	ImageStore    string           `json:"image_store"` // the root that containerd keeps
	// Sysctls holds the values of host settings from before the lab raised them.
	Sysctls   map[string]int `json:"sysctls,omitempty"`
	UpSeconds float64        `json:"up_s,omitempty"` // how long Up took
	Images    lab.Images     `json:"images"`

	Nodes []Node `json:"nodes,omitempty"`
}

// paths locates files in the state folder.
type paths struct{ base string }

// stateDir returns the folder of local labs: dir, or the user's state folder.
func stateDir(dir string) (paths, error) {
	if dir == "" {
		dir = os.Getenv("XDG_STATE_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return paths{}, fmt.Errorf("find a folder for the lab's state: %w", err)
			}
			dir = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(dir, "meshtrial", "lab")
	}
	dir, err := filepath.Abs(dir)
	return paths{dir}, err
}

func (p paths) lock() string       { return filepath.Join(p.base, "lock") }
func (p paths) record() string     { return filepath.Join(p.base, "lab.json") }
func (p paths) kubeconfig() string { return filepath.Join(p.base, "kubeconfig") }

// dir returns the folder of one lab.
func (p paths) dir(id string) labDir { return labDir(filepath.Join(p.base, id)) }

// labDir is the folder of one lab's files.
type labDir string

func (d labDir) join(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}
func (d labDir) spec() string            { return d.join("spec.json") }
func (d labDir) logs() string            { return d.join("log") }
func (d labDir) log(name string) string  { return d.join("log", name+".log") }
func (d labDir) pki(name string) string  { return d.join("pki", name) }
func (d labDir) conf(name string) string { return d.join("conf", name) }

// errNoRecord reports that this folder has no lab.
var errNoRecord = errors.New("no lab has been started")

func (p paths) readRecord() (*record, error) {
	data, err := os.ReadFile(p.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoRecord
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", p.record(), err)
	}
	if !validID(r.ID) {
		return nil, fmt.Errorf("%s: %q is not a lab ID", p.record(), r.ID)
	}
	return r, nil
}

func (p paths) writeRecord(r *record) error { return writeJSON(p.record(), r) }

// writeJSON replaces a file atomically, readable only by its owner.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Rename(tmp, path)
}

// newID returns six random hex digits: short enough for an interface name.
func newID() string {
	var b [3]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func validID(id string) bool {
	_, err := hex.DecodeString(id)
	return err == nil && len(id) == 6
}

// bootID returns the ID of the current boot, or "" if it cannot be read.
func bootID() string {
	id, _ := procfs.BootID()
	return id
}

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked")

// lockFile takes an exclusive lock without waiting. The lock lasts until every copy
// of the file is closed, including copies that children inherited.
func lockFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// startTicks returns when a process started, in clock ticks since boot; together
// with the PID it identifies a process permanently. It is 0 if there is no process
// or only a zombie.
func startTicks(pid int) uint64 {
	process, err := procfs.ReadProcess(pid)
	if err != nil || process.Ended() {
		return 0
	}
	return process.StartTime
}

// initAlive reports whether the record's init is still running.
func (r *record) initAlive() bool {
	return r.InitPID > 0 && r.BootID == bootID() && startTicks(r.InitPID) == r.InitStart && r.InitStart != 0
}
