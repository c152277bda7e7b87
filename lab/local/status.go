package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// States of a lab.
const (
	StateNone     = "none"     // no lab, and no leftovers
	StateStarting = "starting" // Up is running
	StateRunning  = "running"
	StateDead     = "dead" // its init was killed; Down removes the leftovers
)

// Status is the status of a lab, as `meshtrial lab status --json` prints it.
type Status struct {
	Schema     int       `json:"schema"`
	State      string    `json:"state"`
	ID         string    `json:"id,omitempty"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	StateDir   string    `json:"state_dir"`
	Started    time.Time `json:"started,omitzero"`
	UpSeconds  float64   `json:"up_s,omitempty"` // how long Up took
	InitPID    int       `json:"init_pid,omitempty"`
	// ForRun is the process that takes the lab down at its end, nil for a lab that
	// stays; Orphaned means that it was killed before it could.
	ForRun     *procfs.Identity  `json:"for_run,omitempty"`
	Orphaned   bool              `json:"orphaned,omitempty"`
	API        string            `json:"api,omitempty"`
	Node       string            `json:"node_ip,omitempty"`
	Pods       string            `json:"pods_cidr,omitempty"`
	Services   string            `json:"services_cidr,omitempty"`
	Cgroup     string            `json:"cgroup,omitempty"`
	Images     lab.Images        `json:"images,omitzero"`
	Nodes      []NodeStatus      `json:"nodes,omitempty"`
	Components []ComponentStatus `json:"components,omitempty"` // including those of several nodes
}

// NodeStatus is the status of a node.
type NodeStatus struct {
	Node
	State string `json:"state"` // StateRunning, StateDead, or StateStarting before its first run
}

// nodeStates derives the states of nodes from the components of a running lab. A single
// node has the lab's state; each of several nodes has the state of its first process.
func nodeStates(nodes []Node, lab string, components []ComponentStatus) []NodeStatus {
	var all []NodeStatus
	for _, n := range nodes {
		status := NodeStatus{n, lab}
		for _, c := range components {
			switch {
			case c.Node != n.Name || c.Name != nodeComponent:
			case c.PID > 0:
				status.State = StateRunning
			case c.LastExit == "":
				status.State = StateStarting
			default:
				status.State = StateDead
			}
		}
		all = append(all, status)
	}
	return all
}

// GetStatus returns the status of the lab of a state folder ("" means the default).
func GetStatus(dir string) (*Status, error) {
	p, err := stateDir(dir)
	if err != nil {
		return nil, err
	}
	status := &Status{Schema: 1, State: StateNone, StateDir: p.base}
	r, err := p.readRecord()
	if errors.Is(err, errNoRecord) {
		return status, nil
	}
	if err != nil {
		return nil, errs.WithHint(err, "meshtrial lab down removes it")
	}
	status.ID, status.Started, status.UpSeconds, status.InitPID = r.ID, r.Started, r.UpSeconds, r.InitPID
	if status.ForRun = r.ForRun; r.ForRun != nil {
		if status.Orphaned, err = r.orphaned(); err != nil {
			return nil, err
		}
	}
	status.Kubeconfig, status.API, status.Cgroup, status.Images = p.kubeconfig(), r.Network.apiURL(), r.Cgroup, r.Images
	status.Node, status.Pods, status.Services = r.Network.Node.Addr().String(), r.Network.Pods.String(), r.Network.Services.String()
	switch {
	case !r.initAlive():
		status.State = StateDead
		status.Nodes = nodeStates(r.Nodes, StateDead, nil)
		return status, nil
	case r.Phase == phaseReady:
		status.State = StateRunning
	default:
		status.State = StateStarting
	}
	status.Components, err = queryInit(r.InitPID)
	if err != nil && status.State == StateRunning {
		return status, fmt.Errorf("ask the lab's init: %w", err)
	}
	status.Nodes = nodeStates(r.Nodes, status.State, status.Components)
	return status, nil
}

// answerTime bounds an init's answer, which is slow only on a busy machine.
const answerTime = 10 * time.Second

// queryInit asks a running init for its components.
func queryInit(pid int) ([]ComponentStatus, error) {
	conn, err := net.DialTimeout("unix", insidePath(pid, statusSocket), answerTime)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(answerTime))
	var components []ComponentStatus
	return components, json.NewDecoder(conn).Decode(&components)
}

// LogFiles lists the log files of the lab's components by name, as NODE/NAME if there
// are several nodes. Without a lab it lists those of the last failed start.
func LogFiles(dir string) (map[string]string, error) {
	p, err := stateDir(dir)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(p.base, "failed")
	ofNodes := filepath.Join(folder, "nodes", "*")
	if r, err := p.readRecord(); err == nil {
		folder, ofNodes = p.dir(r.ID).logs(), p.dir(r.ID).nodeDir("*").logs()
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.WithHint(ErrNotRunning, "meshtrial lab up starts one")
	}
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".log"); ok {
			files[name] = filepath.Join(folder, entry.Name())
		}
	}
	found, err := filepath.Glob(filepath.Join(ofNodes, "*.log"))
	for _, path := range found {
		node := strings.TrimSuffix(filepath.Dir(path), "/log") // a failed node has no such folder
		files[filepath.Base(node)+"/"+strings.TrimSuffix(filepath.Base(path), ".log")] = path
	}
	return files, err
}

// ToolsDir returns a folder for PATH that contains kubectl, or "" if there is no lab.
func ToolsDir(dir string) string {
	p, err := stateDir(dir)
	if err != nil {
		return ""
	}
	r, err := p.readRecord()
	if err != nil {
		return ""
	}
	tools := p.dir(r.ID).join("tools")
	if _, err := os.Stat(tools); err != nil {
		return ""
	}
	return tools
}
