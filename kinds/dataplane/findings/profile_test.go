package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const profileStudy = `
name: profiles
question: Where does the CPU go?
settings: {rate: 1000}
factors: {sidecars: [none, both]}
blocks: {min: 4, max: 6}
stop: none
measures: [cpu, profile]
profile: {hz: 19, length: 5s}
`

// profiledRun returns a run whose client proxies spent a share of their time in a filter, and used
// so much more CPU while profiled.
func profiledRun(t *testing.T, share func(block int) float64, more float64) record.Run {
	t.Helper()
	files := map[string][]byte{}
	w := analysistest.Quiet()
	w.Spoil = func(trial *record.Trial) {
		if !study.HasClientProxy(trial.Cell) {
			return
		}
		file := "profiles/" + trial.ID + "-client_proxy.pb.gz"
		filter := int(100 * share(trial.Block))
		var b bytes.Buffer
		p, err := profile.ReadFolded(strings.NewReader(
			"main;Envoy::Extensions::HttpFilters::IstioStats::Filter::log " + strconv.Itoa(filter) + "\n" +
				"main;Envoy::Router::Filter::decodeHeaders;tcp_sendmsg_[k] " + strconv.Itoa(100-filter) + "\n"))
		must.OK(t, err)
		must.OK(t, p.WritePprof(&b))
		files[file] = b.Bytes()
		filters := "profiles/" + trial.ID + "-client_proxy.filters.json"
		files[filters], _ = json.Marshal([]profile.ConfigFilter{{Group: profile.GroupHTTPFilter, Name: "istio.stats", Centre: "istio.stats", Places: 1}, {Group: profile.GroupHTTPFilter, Name: "fault", Centre: "envoy.filters.http.fault", Places: 1}})
		cpu := trial.CPU[record.PartClientProxy]
		trial.Profiles = []record.Profiled{{Part: record.PartClientProxy, File: file, Filters: filters, Hz: 19, Graph: "fp", Seconds: 8, Samples: 100, Trust: 1,
			CPU: &record.CPU{UserS: cpu.UserS * (1 + more), SystemS: cpu.SystemS * (1 + more)}, CPUSeconds: trial.Window.Seconds}}
	}
	run := analysistest.Simulate(t, profileStudy, 4, 7, w)
	run.Profile = func(file string) (io.ReadCloser, error) {
		data, ok := files[file]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return run
}

// Shares of cost centres have intervals over the run's blocks, the cost of profiling is reported,
// and the page gets the profile.
func TestProfileFindings(t *testing.T) {
	f := analysistest.Analyze(t, kinds, profiledRun(t, func(block int) float64 { return 0.14 + 0.01*float64(block%2) }, 0.015))
	cell := record.Cell{"sidecars": "both"}
	got := analysistest.Get(t, f, "profile_share_client_proxy_http_filter_istio_stats", cell)
	if math.Abs(got.Estimate-0.145) > 1e-9 || got.Low > 0.14 || got.High < 0.15 || got.Low < 0.12 || got.Unit != finding.UnitRatio || got.Blocks != 4 || got.Verdict != record.VerdictMeasured {
		t.Errorf("%+v", got)
	}
	if got := analysistest.Get(t, f, "profile_share_client_proxy_kernel_network", cell); math.Abs(got.Estimate-0.855) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := analysistest.Get(t, f, "profile_cost_client_proxy", cell); math.Abs(got.Estimate-0.015) > 1e-9 || got.Verdict != record.VerdictReal {
		t.Errorf("%+v", got)
	}
	if got := analysistest.Get(t, f, "profile_named_client_proxy", cell); got.Estimate != 1 {
		t.Errorf("%+v", got)
	}
	if len(f.Profiles) != 1 {
		t.Fatalf("%d profiles", len(f.Profiles))
	}
	var v profile.View
	must.OK(t, json.Unmarshal(f.Profiles[0], &v))
	if !strings.Contains(v.Title, "client proxy") || v.Samples != 400 || len(v.Costs.Filters) != 2 || !v.Costs.Filters[0].Seen || v.Costs.Filters[1].Seen {
		t.Errorf("%+v %+v", v, v.Costs)
	}
}

// With a single block, the cost of profiling has no interval, and therefore no number.
func TestProfileCostOfOneBlock(t *testing.T) {
	run := profiledRun(t, func(int) float64 { return 0.14 }, 0.015)
	run.Trials = slices.DeleteFunc(run.Trials, func(t record.Trial) bool { return t.Block > 0 })
	f := analysistest.Analyze(t, kinds, run)
	must.OK(t, must.Err(json.Marshal(f)))
	if got := analysistest.Get(t, f, "profile_cost_client_proxy", record.Cell{"sidecars": "both"}); got.Verdict != record.VerdictInvalid || got.Low != 0 {
		t.Errorf("%+v", got)
	}
}

// A lost or damaged profile yields a warning, and the rest stands.
func TestLostProfiles(t *testing.T) {
	run := profiledRun(t, func(int) float64 { return 0.2 }, 0)
	open := run.Profile
	n := 0
	run.Profile = func(file string) (io.ReadCloser, error) {
		if !strings.HasSuffix(file, ".pb.gz") {
			return open(file)
		}
		switch n++; n {
		case 1:
			return nil, errors.New("the disk is gone")
		case 2:
			return io.NopCloser(strings.NewReader("rubbish")), nil
		}
		return open(file)
	}
	f := analysistest.Analyze(t, kinds, run)
	if got := analysistest.Get(t, f, "profile_share_client_proxy_http_filter_istio_stats", record.Cell{"sidecars": "both"}); got.Estimate != 0.2 || got.Blocks != 2 {
		t.Errorf("%+v", got)
	}
	if warnings := note.Words(f.Warnings); !strings.Contains(warnings, "the disk is gone") || !strings.Contains(warnings, "not a profile") {
		t.Errorf("warnings %q", warnings)
	}
}

// A profile of three samples yields a warning and its flame graph, but no share in the findings.
func TestProfileOfTooFewSamples(t *testing.T) {
	run := profiledRun(t, func(int) float64 { return 0.2 }, 0)
	run.Trials = slices.DeleteFunc(run.Trials, func(t record.Trial) bool { return t.Block > 0 })
	var b bytes.Buffer
	p, err := profile.ReadFolded(strings.NewReader("main;tcp_sendmsg_[k] 1\nmain;Envoy::Router::Filter::decodeHeaders 2\n"))
	if err != nil || p.WritePprof(&b) != nil {
		t.Fatal(err)
	}
	open := run.Profile
	run.Profile = func(file string) (io.ReadCloser, error) {
		if strings.HasSuffix(file, ".pb.gz") {
			return io.NopCloser(bytes.NewReader(b.Bytes())), nil
		}
		return open(file)
	}
	f := analysistest.Analyze(t, kinds, run)
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "profile_share") || strings.HasPrefix(x.Name, "profile_named") {
			t.Errorf("%+v", x)
		}
	}
	if !strings.Contains(note.Words(f.Warnings), "client proxy, both: only 3 samples: too few to say") || len(f.Profiles) != 1 {
		t.Errorf("%q, %d profiles", f.Warnings, len(f.Profiles))
	}
}
