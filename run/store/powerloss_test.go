package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Simulation of a disk that loses power: unsynced changes may be present, absent,
// or partially present. It assumes only what POSIX guarantees about fsync: for a
// file it makes the contents durable, for a folder the names. A rename is atomic.

type node struct {
	data    []byte   // durable
	pending []diskOp // later writes and truncations
	folder  *folder  // nil for a file
}

type folder struct {
	names   map[string]*node // durable
	pending []nameOp
}

type nameOp struct {
	remove, add string // "" for neither
	node        *node
}

// disk replays operations; names is the program's view.
type disk struct {
	root  *node
	names map[string]*node
}

func newDisk() *disk {
	root := &node{folder: &folder{names: map[string]*node{}}}
	return &disk{root, map[string]*node{".": root}}
}

// load returns a disk with the contents of a folder, all of it durable.
func (d *disk) load(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(at string, e os.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		n := &node{}
		if e.IsDir() {
			n.folder = &folder{names: map[string]*node{}}
		} else if n.data, err = os.ReadFile(at); err != nil {
			return err
		}
		d.names[name] = n
		d.names[path.Dir(name)].folder.names[path.Base(name)] = n
		return nil
	})
	must.OK(t, err)
}

func (d *disk) do(op diskOp) {
	rename := func(o nameOp) {
		parent := d.names[path.Dir(op.name)].folder
		parent.pending = append(parent.pending, o)
	}
	switch op.op {
	case "create", "mkdir":
		n := &node{}
		if op.op == "mkdir" {
			n.folder = &folder{names: map[string]*node{}}
		}
		d.names[op.name] = n
		rename(nameOp{add: path.Base(op.name), node: n})
	case "rename":
		n := d.names[op.name]
		delete(d.names, op.name)
		d.names[op.to] = n
		rename(nameOp{remove: path.Base(op.name), add: path.Base(op.to), node: n})
	case "remove":
		delete(d.names, op.name)
		rename(nameOp{remove: path.Base(op.name)})
	case "write", "truncate":
		n := d.names[op.name]
		n.pending = append(n.pending, op)
	case "sync":
		n := d.names[op.name]
		for _, p := range n.pending {
			n.data = after(n.data, p)
		}
		n.pending = nil
	case "syncdir":
		f := d.names[op.name].folder
		for _, p := range f.pending {
			p.apply(f.names)
		}
		f.pending = nil
	default:
		panic("what is " + op.op)
	}
}

func (o nameOp) apply(names map[string]*node) {
	if o.remove != "" {
		delete(names, o.remove)
	}
	if o.add != "" {
		names[o.add] = o.node
	}
}

// after returns the contents of a file after an operation.
func after(data []byte, op diskOp) []byte {
	if op.op == "truncate" {
		return append(slices.Clone(data[:min(int64(len(data)), op.size)]), make([]byte, max(0, op.size-int64(len(data))))...)
	}
	return append(slices.Clone(data), op.data...)
}

// fate determines what happens to unsynced changes.
type fate struct {
	what string
	name func() bool // whether a change of names is kept
	// data returns the contents of a file from its durable contents and its later
	// states.
	data func(durable []byte, states [][]byte) []byte
}

// fates are everything lost, everything kept, and several random ones: some names
// kept, files truncated anywhere, blocks never written.
func fates(random *rand.Rand, others int) []fate {
	last := func(durable []byte, states [][]byte) []byte {
		if len(states) == 0 {
			return durable
		}
		return states[len(states)-1]
	}
	always := func() bool { return true }
	out := []fate{
		{"all lost", func() bool { return false }, func(durable []byte, _ [][]byte) []byte { return durable }},
		{"all kept", always, last},
		{"names without what the files hold", always, func(durable []byte, _ [][]byte) []byte { return durable }},
		{"lengths without what the files hold", always, func(durable []byte, states [][]byte) []byte {
			return append(slices.Clone(durable), make([]byte, max(0, len(last(durable, states))-len(durable)))...)
		}},
	}
	for n := range others {
		out = append(out, fate{fmt.Sprint("some, number ", n), func() bool { return random.IntN(2) == 0 }, func(durable []byte, states [][]byte) []byte {
			if len(states) == 0 {
				return durable
			}
			n := random.IntN(len(states))
			data := slices.Clone(states[n])
			if from := len(durable); len(data) > from {
				data = data[:from+random.IntN(len(data)-from+1)]
				if tail := data[from:]; len(tail) > 0 && random.IntN(2) == 0 { // a block that was never written
					a := random.IntN(len(tail))
					clear(tail[a : a+random.IntN(len(tail)-a+1)])
				}
			}
			return data
		}})
	}
	return out
}

// survivor is a file or a folder that survived.
type survivor struct {
	name   string
	folder bool
	data   []byte
}

// survivors returns all survivors, each folder before its contents.
func (d *disk) survivors(f fate) []survivor {
	var out []survivor
	var put func(n *node, at string)
	put = func(n *node, at string) {
		if n.folder == nil {
			var states [][]byte
			data := n.data
			for _, op := range n.pending {
				data = after(data, op)
				states = append(states, data)
			}
			out = append(out, survivor{at, false, f.data(n.data, states)})
			return
		}
		out = append(out, survivor{at, true, nil})
		names := maps.Clone(n.folder.names)
		for _, op := range n.folder.pending {
			if f.name() {
				op.apply(names)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			put(names[name], filepath.Join(at, name))
		}
	}
	put(d.root, ".")
	return out
}

// write writes the survivors to a real folder.
func write(t *testing.T, all []survivor, dir string) {
	t.Helper()
	for _, s := range all {
		at := filepath.Join(dir, s.name)
		err := error(nil)
		if s.folder {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, s.data, 0o644)
		}
		must.OK(t, err)
	}
}

// session has the operations of a run, and what it reported as safe.
type session struct {
	ops  []diskOp
	made int // number of operations when the run existed; 0 for a resumed one
	// trials by the number of operations when Append returned.
	trials map[int]string
}

// add adds trials with everything that a trial may have.
func (s *session) add(t *testing.T, d *Dir, trials ...int) {
	t.Helper()
	for _, i := range trials {
		tr := trial(i)
		tr.Validity.Valid = true
		var err error
		tr.Hist, err = d.WriteHist(tr.ID, hist(t, []int64{1000}, []int64{900}))
		must.OK(t, err)
		_, config := d.WriteConfig(tr.ID, "proxy.json", []byte(`{"a": "configuration"}`))
		_, requests := d.WriteRequests(tr.ID, packed(t))
		must.OK(t, errors.Join(config, requests, d.WriteEvidence(tr.ID, []byte(`{"a": "sight"}`)), d.Append(tr, changes(i, 3)...)))
		s.trials[len(s.ops)] = tr.ID
	}
}

// survives loads and resumes a run after a crash, and adds another trial to it.
func survives(t *testing.T, what, dir string, made bool, want []string) {
	t.Helper()
	run, _, err := Load(t.Context(), dir)
	if !made && err != nil {
		if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: a run that was not there yet: %v, code %d", what, err, errs.Code(err))
		}
		return
	}
	if err != nil {
		t.Errorf("%s: load: %v", what, err)
		return
	}
	whole := func(run record.Run, want []string) {
		for _, id := range want {
			at := slices.IndexFunc(run.Trials, func(tr record.Trial) bool { return tr.ID == id })
			if at < 0 {
				t.Errorf("%s: trial %s is lost", what, id)
				continue
			}
			events := 0
			for _, e := range run.Events {
				if e.Trial == id {
					events++
				}
			}
			_, evidence := ReadEvidence(dir, id)
			requests, logged := OpenRequests(dir, id)
			if logged == nil {
				logged = requests.Close()
			}
			if tr := run.Trials[at]; !tr.Validity.Valid || events != 3 || run.Hist[id].Intended == nil || evidence != nil || logged != nil {
				t.Errorf("%s: trial %s: %+v, %d events, evidence %v, requests %v", what, id, tr.Validity, events, evidence, logged)
			}
		}
	}
	whole(run, want)
	d, c, err := Resume(dir, nil, 0)
	if err != nil {
		t.Errorf("%s: resume: %v", what, err)
		return
	}
	defer d.Close()
	for _, id := range want {
		if !slices.ContainsFunc(c.Trials, func(tr record.Trial) bool { return tr.ID == id }) {
			t.Errorf("%s: resumed without trial %s", what, id)
		}
	}
	next := &session{trials: map[int]string{}}
	next.add(t, d, 77)
	if left, err := filepath.Glob(filepath.Join(dir, "*", tempPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("%s: left behind: %v, %v", what, left, err)
	}
	if run, notes, err := Load(t.Context(), dir); err != nil || len(notes) > 0 {
		t.Errorf("%s: after one more trial: %v, %q", what, err, notes)
	} else {
		whole(run, append(slices.Clone(want), trial(77).ID))
	}
}

// crash cuts the power after each operation of a session.
func (s *session) crash(t *testing.T, base string, had []string) {
	t.Helper()
	random, others, seen := rand.New(rand.NewPCG(1, 2)), 2, map[string]bool{}
	if n, err := strconv.Atoi(os.Getenv("MESHTRIAL_SIMULATIONS")); err == nil {
		others = n
	}
	for n := range len(s.ops) + 1 {
		want := slices.Clone(had)
		for _, at := range slices.Sorted(maps.Keys(s.trials)) {
			if at <= n {
				want = append(want, s.trials[at])
			}
		}
		for _, f := range fates(random, others) {
			d := newDisk()
			if base != "" {
				d.load(t, base)
			}
			for _, op := range s.ops[:n] {
				d.do(op)
			}
			all := d.survivors(f)
			state := fmt.Sprintf("%+v, %v, %v", all, n >= s.made, want)
			if seen[state] {
				continue
			}
			seen[state] = true
			dir := filepath.Join(t.TempDir(), "run")
			write(t, all, dir)
			last := "nothing"
			if n > 0 {
				last = strings.TrimSpace(s.ops[n-1].op + " " + s.ops[n-1].name)
			}
			survives(t, fmt.Sprintf("power lost after %d of %d (%s), %s", n, len(s.ops), last, f.what), dir, n >= s.made, want)
		}
	}
}

// Whenever power is lost, a run can be read and resumed, and has every trial that
// was reported as safe, whatever happened to unsynced changes.
func TestPowerLoss(t *testing.T) {
	first := &session{trials: map[int]string{}}
	dir := filepath.Join(t.TempDir(), "run")
	d, err := createWatched(dir, header, []byte("source"), []byte("resolved"), func(op diskOp) {
		op.data = slices.Clone(op.data)
		first.ops = append(first.ops, op)
	})
	must.OK(t, err)
	first.made = len(first.ops)
	first.add(t, d, 0, 1)
	must.OK(t, d.Close())
	replayed := newDisk()
	for _, op := range first.ops {
		replayed.do(op)
	}
	again := filepath.Join(t.TempDir(), "again")
	write(t, replayed.survivors(fates(nil, 0)[0]), again)
	for _, name := range []string{FileHeader, FileTrials, FileEvents, EvidenceFile(trial(1).ID)} { // the record is complete
		wrote, err := os.ReadFile(filepath.Join(dir, name))
		if replay, rerr := os.ReadFile(filepath.Join(again, name)); err != nil || rerr != nil || string(wrote) != string(replay) {
			t.Fatalf("%s is not as it was recorded: %v, %v", name, err, rerr)
		}
	}
	first.crash(t, "", nil)
}

// The same for a run that is resumed after a crash, and removes what that left.
func TestPowerLossWhileResuming(t *testing.T) {
	dir := measured(t)
	for name, more := range map[string]string{
		FileTrials: `{"schema": 1, "id": "b0`,
		FileEvents: torn(t),
	} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(more)
		}
		err = errors.Join(err, f.Close(), os.WriteFile(filepath.Join(dir, DirHist, tempPrefix+"x"), []byte("half"), 0o600))
		must.OK(t, err)
	}
	base := filepath.Join(t.TempDir(), "base")
	must.OK(t, os.CopyFS(base, os.DirFS(dir)))
	second := &session{trials: map[int]string{}}
	d, _, err := resumeWatched(dir, nil, 0, func(op diskOp) {
		op.data = slices.Clone(op.data)
		second.ops = append(second.ops, op)
	})
	must.OK(t, err)
	second.add(t, d, 8)
	must.OK(t, d.Close())
	for _, op := range []string{"truncate", "remove", "rename"} {
		if !slices.ContainsFunc(second.ops, func(o diskOp) bool { return o.op == op }) {
			t.Errorf("no %s was recorded", op)
		}
	}
	second.crash(t, base, nil)
}

// torn returns what an unfinished trial had written of its events.
func torn(t *testing.T) string {
	t.Helper()
	lines, err := encodeEvents(trial(6).ID, changes(6, 2))
	must.OK(t, err)
	return string(lines[:len(lines)-7])
}
