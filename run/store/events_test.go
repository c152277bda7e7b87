package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// changes returns n events of trial i.
func changes(i, n int) []record.Event {
	var out []record.Event
	for c := range n {
		out = append(out, record.Event{
			Schema: record.Schema, Trial: trial(i).ID, Change: c, Kind: "service", Op: "create", Object: "Service/a/b",
			Markers:   []record.Marker{{Change: c, Type: "cds", Text: "mark\n\"é\""}},
			PlannedNS: 1, SentNS: 2, CommittedNS: 1_700_000_000_000_000_000 + int64(c), Expected: 3,
			Seen:   record.Sightings{Proxy: []int32{0, 2}, ReceivedUS: []int64{-10, 20}, AckedUS: []int64{-1, record.Never}},
			Missed: []int32{1},
		})
	}
	return out
}

func TestEvents(t *testing.T) {
	d := create(t)
	var want []record.Event
	for i, n := range []int{2, 0, 3} {
		events := changes(i, n)
		want = append(want, events...)
		for e := range events {
			events[e].Trial, events[e].Schema = "", 0 // set by the store
		}
		must.OK(t, d.Append(trial(i), events...))
	}
	run, notes, err := Load(t.Context(), d.Path())
	if err != nil || len(notes) > 0 || !reflect.DeepEqual(run.Events, want) {
		t.Fatalf("%v, %v: %+v", err, notes, run.Events)
	}
	if c, err := Read(d.Path()); err != nil || c.Events != nil || len(c.Trials) != 3 {
		t.Errorf("Read: %d trials, events %v, %v", len(c.Trials), c.Events, err)
	}
	d.Close()
	again, c, err := Resume(d.Path(), nil, 0)
	if err != nil || !reflect.DeepEqual(c.Events, want) {
		t.Fatalf("resumed: %v, %d events", err, len(c.Events))
	}
	defer again.Close()
	more := changes(3, 1)
	must.OK(t, again.Append(trial(3), more...))
	if run, _, err = Load(t.Context(), d.Path()); err != nil || !reflect.DeepEqual(run.Events, append(want, more...)) {
		t.Errorf("after resuming: %v, %d events", err, len(run.Events))
	}
}

// A run without changes has no events file.
func TestNoEvents(t *testing.T) {
	d := create(t)
	must.OK(t, d.Append(trial(0)))
	if _, err := os.Stat(filepath.Join(d.Path(), FileEvents)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", FileEvents, err)
	}
}

// What a crash leaves of the last trial's changes, truncated at any byte, is removed.
// Earlier content is kept, and the trial can be repeated.
func TestEventsTruncatedAtEveryByte(t *testing.T) {
	d := create(t)
	for i := range 2 {
		must.OK(t, d.Append(trial(i), changes(i, 2)...))
	}
	d.Close()
	name := filepath.Join(d.Path(), FileEvents)
	kept, err := os.ReadFile(name)
	must.OK(t, err)
	orphans, err := encodeEvents(trial(2).ID, changes(2, 2))
	must.OK(t, err)
	for cut := 0; cut <= len(orphans); cut++ {
		must.OK(t, os.WriteFile(name, append(bytes.Clone(kept), orphans[:cut]...), 0o644))
		run, notes, err := Load(t.Context(), d.Path())
		if err != nil || len(run.Events) != 4 || (len(notes) > 0) != (cut > 0) {
			t.Fatalf("cut at %d: %d events, notes %q, %v", cut, len(run.Events), notes, err)
		}
	}
	again, c, err := Resume(d.Path(), nil, 0)
	if err != nil || len(c.Events) != 4 {
		t.Fatalf("resumed: %d events, %v", len(c.Events), err)
	}
	defer again.Close()
	if now, _ := os.ReadFile(name); !bytes.Equal(now, kept) {
		t.Error("the file still holds changes of a trial that never ended")
	}
	must.OK(t, again.Append(trial(2), changes(2, 2)...))
	if run, notes, err := Load(t.Context(), d.Path()); err != nil || len(run.Events) != 6 || len(notes) > 0 {
		t.Errorf("to repeat that trial: %d events, %q, %v", len(run.Events), notes, err)
	}
}

// A trial whose line or events do not fit leaves both files unchanged.
func TestEventsDiskFull(t *testing.T) {
	d := create(t)
	must.OK(t, d.Append(trial(0), changes(0, 2)...))
	files := func() string {
		var all []byte
		for _, name := range []string{FileEvents, FileTrials} {
			data, err := os.ReadFile(filepath.Join(d.Path(), name))
			must.OK(t, err)
			all = append(all, data...)
		}
		return string(all)
	}
	before := files()
	for room := 0; room < 200; room += 13 {
		full := func(f *os.File) file { return failing{file: f, room: room} }
		for _, a := range []*appender{&d.trials, &d.events} {
			a.wrap = full
			if err := d.Append(trial(1), changes(1, 2)...); !errors.Is(err, syscall.ENOSPC) || errs.Hint(err) == "" {
				t.Fatalf("room %d: %v", room, err)
			}
			a.wrap = nil
			if files() != before {
				t.Fatalf("room %d: something of the trial is left", room)
			}
		}
	}
	must.OK(t, d.Append(trial(1), changes(1, 2)...))
	d.eventsLimit = d.events.size + 100
	if err := d.Append(trial(2), changes(2, 2)...); err == nil || !strings.Contains(errs.Hint(err), "split") {
		t.Errorf("beyond the limit: %v", err)
	}
	run, notes, err := Load(t.Context(), d.Path())
	if err != nil || len(notes) > 0 || len(run.Events) != 4 || len(run.Trials) != 2 {
		t.Errorf("%d events, %d trials, %q, %v", len(run.Events), len(run.Trials), notes, err)
	}
}

func TestEventsDamaged(t *testing.T) {
	line := func(edit func(*record.Event)) string {
		e := changes(0, 1)[0]
		edit(&e)
		out, err := encodeEvents(e.Trial, []record.Event{e})
		must.OK(t, err)
		return string(out)
	}
	good := line(func(*record.Event) {})
	next := line(func(e *record.Event) { e.Change = 1 })
	ended := map[string]int{trial(0).ID: 1}
	for name, test := range map[string]struct{ text, err string }{
		"twice":              {good + next + good, "is a duplicate"},
		"no trial":           {line(func(e *record.Event) { e.Trial = "" }), "belongs to no trial"},
		"columns":            {line(func(e *record.Event) { e.Seen.AckedUS = nil }) + good, "0 acknowledged"},
		"applied":            {line(func(e *record.Event) { e.Seen.AppliedUS = []int64{1} }) + good, "1 applied"},
		"no JSON":            {"{\n" + good, ":1: not an event"},
		"newer":              {strings.Replace(good, fmt.Sprintf(`"schema":%d`, record.Schema), `"schema":99`, 1), "schema 99"},
		"orphans before":     {line(func(e *record.Event) { e.Trial = "x" }) + good, "never ended"},
		"two orphans' lines": {line(func(e *record.Event) { e.Trial = "x" }) + line(func(e *record.Event) { e.Trial = "y" }), "never ended"},
	} {
		_, _, _, err := parseEvents("events.jsonl", strings.NewReader(test.text), ended, nil)
		if err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, _, err := parseEvents("e", strings.NewReader(strings.Repeat("x", maxEventLine+2)), ended, nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a line without end: %v", err)
	}
}

func TestProfilesAndConfigs(t *testing.T) {
	d := create(t)
	for range 2 { // a resumed run stores a trial again
		name, err := d.WriteProfile("b000-t00", "istiod-cpu.pb.gz", []byte("p"))
		if err != nil || name != "profiles/b000-t00-istiod-cpu.pb.gz" {
			t.Fatal(name, err)
		}
		if data, err := os.ReadFile(filepath.Join(d.Path(), name)); err != nil || string(data) != "p" {
			t.Error(string(data), err)
		}
	}
	if name, err := d.WriteConfig("b000-t00", "catalog.json", nil); err != nil || name != "configs/b000-t00-catalog.json" {
		t.Error(name, err)
	}
	// A mesh's configuration and the memory of its programs are readable only by the
	// owner.
	for name, mode := range map[string]fs.FileMode{"configs": fs.ModeDir | 0o700, "configs/b000-t00-catalog.json": 0o600,
		"profiles": fs.ModeDir | 0o700, "profiles/b000-t00-istiod-cpu.pb.gz": 0o600} {
		if info, err := os.Stat(filepath.Join(d.Path(), name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
	for _, bad := range []string{"", "../x", "a/b", ".hidden"} {
		if _, err := d.WriteProfile("b000-t00", bad, nil); err == nil {
			t.Errorf("%q is a file's name", bad)
		}
		if _, err := d.Subdir(bad); bad == "../x" && err == nil {
			t.Errorf("%q is a directory of the run", bad)
		}
	}
}

// What a trial had not synced when power was lost may have holes followed by whole
// lines. Everything from the first hole on is dropped, unless it is followed by events
// of trials that ended.
func TestEventsTorn(t *testing.T) {
	lines := func(i, n int) string {
		out, err := encodeEvents(trial(i).ID, changes(i, n))
		must.OK(t, err)
		return string(out)
	}
	good, open, hole := lines(0, 2), lines(1, 1), "{\"trial\":\x00\x00\n"
	for name, test := range map[string]struct {
		text   string
		counts int
		whole  int
		note   string // "" means an error
	}{
		"a hole, then lines":      {good + hole + open, 2, len(good), "everything from line 3 on, which is incomplete"},
		"lines, a hole, then one": {good + open + hole + strings.ReplaceAll(open, `"change":0`, `"change":5`), 2, len(good), "everything from line 4 on"},
		"holes alone":             {good + hole + hole + hole, 2, len(good), "everything from line 3 on"},
		"before the last counted": {good + hole + open, 3, 0, ""},
		"in the middle":           {lines(0, 1) + hole + strings.TrimPrefix(good, lines(0, 1)), 2, 0, ""},
	} {
		ended := map[string]int{trial(0).ID: test.counts}
		events, whole, notes, err := parseEvents("events.jsonl", strings.NewReader(test.text), ended, nil)
		if test.note == "" {
			if err == nil || !strings.Contains(err.Error(), "not an event") {
				t.Errorf("%s: %v, %q", name, err, notes)
			}
			continue
		}
		if err != nil || len(events) != 2 || whole != int64(test.whole) || !strings.Contains(strings.Join(notes, "; "), test.note) {
			t.Errorf("%s: %d events, %d bytes whole, %q, %v", name, len(events), whole, notes, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("{\"schema\":1,\"trial\":\"a\"}\n{\"schema\":1,\"trial\":\"a\",\"change\":1}\n"))
	f.Add([]byte("{\"schema\":1,\"trial\":\"a\"}\n{\"schema\":1,\"trial\":\"b\"}\n"))
	f.Add([]byte("{\"schema\":1,\"trial\":\"a\"}\n{\"schema\""))
	f.Add([]byte("{\"schema\":1,\"trial\":\"a\"}\n\x00\x00\n{\"schema\":1,\"trial\":\"b\"}\n{\"sch"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ended := map[string]int{"a": 1}
		events, whole, notes, err := parseEvents("events.jsonl", bytes.NewReader(data), ended, nil)
		lost := &loss{}
		kept, n, _, lenient := parseEvents("events.jsonl", bytes.NewReader(data), ended, lost)
		if err == nil && (lenient != nil || lost.first != nil || len(lost.doubt) > 0 || n != whole || !reflect.DeepEqual(kept, events)) {
			t.Fatalf("nothing is damaged, yet %v, %v, %v: %d changes of %d", lenient, lost.first, lost.doubt, len(kept), len(events))
		}
		if err != nil && lenient == nil && lost.first == nil {
			t.Fatalf("%v is passed over", err)
		}
		if err != nil {
			return
		}
		if whole < 0 || whole > int64(len(data)) || (whole < int64(len(data))) != (len(notes) > 0) {
			t.Fatalf("%d bytes of %d are whole, notes %v", whole, len(data), notes)
		}
		again, n, notes, err := parseEvents("events.jsonl", bytes.NewReader(data[:whole]), ended, nil)
		if err != nil || n != whole || len(notes) != 0 || !reflect.DeepEqual(again, events) {
			t.Fatalf("read again: %d events of %d, %v, %v", len(again), len(events), notes, err)
		}
	})
}
