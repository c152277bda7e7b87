package advice

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Known operands alone can decide conditions: false and unknown is false, true or unknown is
// true.
func TestTruth(t *testing.T) {
	values := []Truth{Unknown, False, True}
	for _, a := range values {
		for _, b := range values {
			want := Unknown
			switch {
			case a == False || b == False:
				want = False
			case a == True && b == True:
				want = True
			}
			if got := all(a, b); got != want {
				t.Errorf("all(%d, %d) is %d", a, b, got)
			}
			if got := not(either(not(a), not(b))); got != want {
				t.Errorf("either(%d, %d) is no dual of all: %d", a, b, got)
			}
		}
	}
	for name, c := range map[string]struct{ got, want Truth }{
		"less": {below(1, 2), True}, "more": {below(2, 1), False}, "nothing": {below(unknown, 1), Unknown},
		"of nothing": {atLeast(1, 2*unknown), Unknown},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, not %d", name, c.got, c.want)
		}
	}
	if v := choose(Unknown, 1, 1); known(v) {
		t.Errorf("an unknown choice is %g", v)
	}
}

// oneSlot returns a mesh limited by its throttle, with an istiod that has the setting.
func oneSlot(t *testing.T) *Evidence {
	e := evidence(t, healthy, "queue=0.075 queue_and_push=0.078 cpu=0.1 push_throttle=1")
	e.Source = "here"
	e.Known = &variables.Known{Version: "9.9", Variables: []variables.Variable{{Name: "PILOT_PUSH_THROTTLE",
		Default: "0"}}}
	return e
}

// Reports match golden files, one of which lists the rules that are ruled out.
func TestText(t *testing.T) {
	doubtful := evidence(t, healthy, "queue=0.3 queue_and_push=0.8 send=0.45 push_throttle=?")
	doubtful.Doubt = "no trial of this cell is valid"
	for name, e := range map[string]*Evidence{
		"throttle":     oneSlot(t),
		"nothing":      {Source: "here"},
		"slow_readers": doubtful,
		"manifests": {Source: "here", Root: "mesh-root",
			Facts: map[*Quantity]float64{AccessLogShare: 0.3, ConfigBytes: 2e6, ScopedShare: 0, UnusedShare: 0.7,
				ProxyCPULimit: 3, ProxyThrottled: 0.5, WorkerBusiest: 0.95},
			Levers: map[string]string{controlplane.FactorSidecarScope: "none"},
			Limits: map[string]string{record.PartServerProxy: record.LimitCPU,
				record.PartClientProxy: record.LimitConcurrency}},
		"contradiction": evidence(t, healthy, "debounce=1 debounce_after=5s"),
	} {
		var b strings.Builder
		must.OK(t, WriteText(&b, Judge(e), name == "throttle"))
		golden.File(t, "testdata/"+name+".txt", []byte(b.String()))
	}
}

// Control characters in a pod's answer or an object do not reach the terminal.
func TestTextIsClean(t *testing.T) {
	e := oneSlot(t)
	e.Notes, e.Doubt = []string{"not read: 500: \x1b]0;owned\x07\u202e \x9b2J"}, "\x1b[2J"
	var b strings.Builder
	must.OK(t, WriteText(&b, Judge(e), true))
	if strings.ContainsAny(b.String(), "\x1b\x07\u202e") || !strings.Contains(b.String(), `\x1b]0;owned\x07\u202e`) ||
		!strings.Contains(b.String(), "\n   try ") {
		t.Errorf("%q", b.String())
	}
}

// An istiod of a revision has another Deployment.
func TestRevision(t *testing.T) {
	e := oneSlot(t)
	e.Deployment = "istiod-canary"
	s := Judge(e).Advice[0].Try[0]
	if !strings.Contains(s.YAML, "metadata: {name: istiod-canary, namespace: istio-system}") ||
		s.Back != "kubectl -n istio-system set env deployment/istiod-canary PILOT_PUSH_THROTTLE=1" {
		t.Errorf("%+v", s)
	}
}

// If an expected effect cannot be calculated, the advice still stands and says what is
// missing. A step may have its own expectation.
func TestExpectations(t *testing.T) {
	rule := rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Code == "throttle" })]
	e := oneSlot(t)
	delete(e.Facts, ConfigBytes)
	delete(e.Facts, ConfigDumpBytes)
	rule.Effect = scaled(ConfigBytes, 0, 1)
	rule.Try = []Try{moreSlots("", nil)}
	j := resolve(e).judge(rule)
	last := j.Why[len(j.Why)-1]
	if j.Outcome != Holds || j.Expect != nil || last.Code != EffectUnknown || last.Text != "config_bytes" {
		t.Errorf("%+v", j)
	}
	if x := j.Try[0].Expect; x == nil || x.Quantity != "queue" || x.Now != 0.075 || x.High != 0.98*0.075 {
		t.Errorf("%+v", x)
	}
}

// Each lever can be set and reverted, or says in words how.
func TestSettings(t *testing.T) {
	for _, f := range controlplane.Levers() {
		level := f.Usual
		if level == "" && len(f.Examples) > 1 {
			level = f.Examples[1]
		}
		s := settingOf(f, level, study.LevelInstalled, usual)
		if s.do == "" || s.back == "" || strings.Contains(s.yaml, "%!") || strings.Contains(s.do, "%!") {
			t.Errorf("%s: %+v", f.Name, s)
		}
	}
}
