package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/loadtest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
)

// noCluster is a lab for runs whose trials need no cluster.
type noCluster struct{}

func (noCluster) Kind() string             { return lab.KindLocal }
func (noCluster) Stays() bool              { return true }
func (noCluster) RESTConfig() *rest.Config { return &rest.Config{} }
func (noCluster) Kubeconfig() string       { return "" }
func (noCluster) Images() lab.Images       { return lab.Images{Meshtrial: "roles"} }
func (noCluster) Close() error             { return nil }

// script is a Measurer implemented by functions.
type script struct {
	trial   func(n int, cell record.Cell, seed uint64) error // nil: it succeeds
	mend    func() error
	n       int // trials requested
	mended  int
	noHists bool
}

func (s *script) Measure(ctx context.Context, job Job) (Completed, error) {
	cell, seed := job.Cell, job.Seed
	n := s.n
	s.n++
	trial := Completed{Trial: record.Trial{Schema: record.Schema, Cell: cell, Started: time.Unix(int64(n), 0).UTC()}}
	if s.trial != nil {
		if err := s.trial(n, cell, seed); err != nil {
			return trial, err
		}
	}
	if err := ctx.Err(); err != nil {
		return trial, err
	}
	trial.Validity.Valid = true
	if s.noHists {
		return trial, nil
	}
	trial.Log = histLog(cell)
	return trial, nil
}

func (s *script) Reconnect(context.Context) error {
	s.mended++
	if s.mend == nil {
		return nil
	}
	return s.mend()
}

// histLog returns a log as written by the generator, with one request.
func histLog(cell record.Cell) []byte {
	var out bytes.Buffer
	if err := loadtest.Result(load.Account{Scheduled: 1, Completed: 1}, 0, 0).WriteLog(&out, 0, 1); err != nil {
		panic(fmt.Sprintf("cell %s: %v", cell.Key(), err))
	}
	return out.Bytes()
}

// anyKind accepts every plan unless unfit is set.
type anyKind struct{ unfit error }

func (anyKind) Check(*study.Plan) error { return nil }
func (k anyKind) Fit(context.Context, *Options, *study.Plan) ([]record.Component, error) {
	return nil, k.unfit
}
func (anyKind) Deploy(context.Context, Deployment) (Stage, error) {
	return nil, errors.New("nothing to deploy")
}
func (anyKind) Changes(context.Context, *Options, *study.Plan) ([]journal.Planned, error) {
	return nil, nil
}
func (anyKind) Remains(context.Context, *rest.Config) error { return nil }

// newRun opens a run whose trials are executed by pods, and returns the events
// that it reports.
func newRun(t *testing.T, out string, resume bool, s *study.Study, pods Measurer) (*run, *[]Event) {
	t.Helper()
	events := &[]Event{}
	r := &run{
		o: &Options{Study: s, Kind: anyKind{}, Source: []byte("source\n"), Lab: noCluster{}, Mesh: none.Mesh{}, Out: out, Resume: resume,
			Progress: func(e Event) { *events = append(*events, e) }},
		started: time.Now(), now: time.Now, pods: pods,
	}
	must.OK(t, r.open(t.Context()))
	t.Cleanup(func() { r.dir.Close() })
	return r, events
}

// reopen opens a run with changed options, and closes it again.
func reopen(t *testing.T, out string, change func(*Options)) error {
	t.Helper()
	o := &Options{Study: studytest.Parse(t, studytest.ThreeCells), Kind: anyKind{}, Source: []byte("source\n"), Lab: noCluster{}, Mesh: none.Mesh{}, Out: out, Progress: func(Event) {}}
	change(o)
	r := &run{o: o, started: time.Now(), now: time.Now}
	err := r.open(t.Context())
	if err == nil {
		err = r.dir.Close()
	}
	return err
}

// trialsOf reads the trials of a run from disk.
func trialsOf(t *testing.T, out string) []record.Trial {
	t.Helper()
	loaded, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	for _, trial := range loaded.Trials {
		if trial.Hist != "" && loaded.Hist[trial.ID].Intended == nil {
			t.Errorf("trial %s has no histograms", trial.ID)
		}
	}
	return loaded.Trials
}

// identities returns what an interruption must not change.
func identities(trials []record.Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, fmt.Sprintf("%s block %d order %d repeat %d: %s", t.ID, t.Block, t.Order, t.Repeat, t.Cell.Key()))
	}
	return out
}

// debris leaves what a writer leaves in a run directory if it dies while
// storing a trial: its histograms, half of its line, and a temporary file.
func debris(t *testing.T, out, id string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(out, store.DirHist, id+".hlog"), histLog(nil), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(out, ".tmp-123"), []byte("half"), 0o644))
	f, err := os.OpenFile(filepath.Join(out, store.FileTrials), os.O_APPEND|os.O_WRONLY, 0)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, must.Err(fmt.Fprintf(f, `{"schema":1,"id":%q,"blo`, id)))
}
