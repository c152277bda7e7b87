package advice

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/study"
)

func mine(t *testing.T) (*Rules, string) {
	t.Helper()
	r, err := Read("mine.yaml", []byte(table))
	if err != nil {
		t.Fatal(err)
	}
	return r, r.PromQL()[0]
}

// A rule is decided by what is known of it alone: false && unknown is false.
func TestThreeAnswers(t *testing.T) {
	r, a := mine(t)
	for name, c := range map[string]struct {
		promql map[string]float64
		levers map[string]string
		want   string
	}{
		"holds":                    {map[string]float64{a: 2}, map[string]string{study.FactorPushThrottle: "1"}, Holds},
		"not so":                   {map[string]float64{a: 0.1}, map[string]string{study.FactorPushThrottle: "1"}, RuledOut},
		"another lever":            {map[string]float64{a: 2}, map[string]string{study.FactorPushThrottle: "2"}, RuledOut},
		"ruled out":                {map[string]float64{a: 20}, map[string]string{study.FactorPushThrottle: "1"}, RuledOut},
		"nothing":                  {nil, nil, NotEnough},
		"no lever":                 {map[string]float64{a: 2}, nil, NotEnough},
		"no lever, and needs none": {map[string]float64{a: 0.1}, nil, RuledOut},
		"only the lever":           {nil, map[string]string{study.FactorPushThrottle: "1"}, NotEnough},
		"lever decides":            {nil, map[string]string{study.FactorPushThrottle: "2"}, RuledOut},
	} {
		out, err := r.Judge(&Evidence{PromQL: c.promql, Levers: c.levers})
		if err != nil {
			t.Fatal(err)
		}
		all := append(append(out.Advice, out.Undecided...), out.RuledOut...)
		if len(all) != 1 || all[0].Outcome != c.want {
			t.Errorf("%s: %+v", name, out)
		}
		if c.want == NotEnough && (len(all[0].Missing) == 0 || all[0].Missing[0].Measure == "") {
			t.Errorf("%s: it does not say what to measure: %+v", name, all[0])
		}
	}
}

func TestText(t *testing.T) {
	r, a := mine(t)
	out, err := r.Judge(&Evidence{Source: "here", PromQL: map[string]float64{a: 2}, Levers: map[string]string{study.FactorPushThrottle: "1"},
		Known: &variables.Known{Version: "9.9", Variables: []variables.Variable{{Name: "PILOT_PUSH_THROTTLE", Default: "0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteText(&b, out, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1. One  (one, confidence high)", "finding  a is 2.0 s", "it is not that a is 2.0 s", "Take PILOT_PUSH_THROTTLE out of istiod's environment", `value: "0"`,
		"back: kubectl -n istio-system set env deployment/istiod PILOT_PUSH_THROTTLE=1", "2.0 s now, 0 µs to 2.0 s then", "a book", "Nothing was applied."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteText(&b, Report{Source: "here"}, false); err != nil || !strings.Contains(b.String(), "Nothing found that limits this mesh") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// What a pod answered, or an object says, is no command to a terminal.
func TestTextIsClean(t *testing.T) {
	r, a := mine(t)
	out, err := r.Judge(&Evidence{Source: "here", PromQL: map[string]float64{a: 2}, Notes: []string{"not read: 500: \x1b]0;owned\x07\u202e \x9b2J"},
		Doubt: "\x1b[2J", Levers: map[string]string{study.FactorPushThrottle: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteText(&b, out, true); err != nil {
		t.Fatal(err)
	}
	if err := WriteLevers(&b, LeverList{Istiod: "1", Source: "x\x1b[2J", Others: []variables.Variable{{Name: "A", Help: "\x1b[31m"}}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07\u202e") || !strings.Contains(b.String(), `\x1b]0;owned\x07\u202e`) || !strings.Contains(b.String(), "\n   try ") {
		t.Errorf("%q", b.String())
	}
}

// A manifest that leaves out what workloads call says so before it is applied.
func TestScopesAreWarned(t *testing.T) {
	for name, want := range map[string]string{study.FactorSidecarScope: "scope --lab cluster --generate", study.FactorExportTo: "gateways"} {
		f, _ := study.LeverByName(name)
		level := map[string]string{study.FactorSidecarScope: "mesh", study.FactorExportTo: "."}[name]
		s := settingOf(f, level, &Evidence{})
		if !strings.Contains(s.words, want) || !strings.Contains(s.yaml, "# ") {
			t.Errorf("%s: %s\n%s", name, s.words, s.yaml)
		}
	}
	f, _ := study.LeverByName(study.FactorExportTo)
	if s := settingOf(f, "*", &Evidence{}); strings.Contains(s.words, "gateways") {
		t.Error(s.words)
	}
}

// An istiod of a revision has a Deployment of its own.
func TestRevision(t *testing.T) {
	r, a := mine(t)
	out, err := r.Judge(&Evidence{Deployment: "istiod-canary", PromQL: map[string]float64{a: 2}, Levers: map[string]string{study.FactorPushThrottle: "1"},
		Known: &variables.Known{Version: "9.9", Variables: []variables.Variable{{Name: "PILOT_PUSH_THROTTLE", Default: "0"}}}})
	if err != nil || len(out.Advice) != 1 || len(out.Advice[0].Try) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	s := out.Advice[0].Try[0]
	if !strings.Contains(s.YAML, "metadata: {name: istiod-canary, namespace: istio-system}") || s.Back != "kubectl -n istio-system set env deployment/istiod-canary PILOT_PUSH_THROTTLE=1" {
		t.Errorf("%+v", s)
	}
}

// What to expect is arithmetic over what is known; where that is not enough, the advice
// stands and says what is missing. A step may expect something of its own.
func TestExpectations(t *testing.T) {
	text := strings.Replace(table, "effect: {of: a, low: '0.0', high: a}", "effect: {of: c, low: '0.0', high: c}", 1)
	text = strings.Replace(text, "rules:\n", "- {name: c, words: the third, from: [{fact: c}], measure: look}\nrules:\n", 1)
	text = strings.Replace(text, "level: default}", "level: default, effect: {of: a, low: 0.2 * a, high: 0.4 * a}}", 1)
	r, err := Read("mine.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e := &Evidence{PromQL: map[string]float64{r.PromQL()[0]: 2}, Levers: map[string]string{study.FactorPushThrottle: "1"}}
	out, err := r.Judge(e)
	if err != nil || len(out.Advice) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	j := out.Advice[0]
	if j.Expect != nil || !strings.Contains(strings.Join(j.Why, "; "), "its effect cannot be predicted: c not known") {
		t.Errorf("%+v", j)
	}
	if x := j.Try[0].Expect; x == nil || x.Quantity != "a" || x.Low != 0.4 || x.High != 0.8 || x.Now != 2 {
		t.Errorf("%+v", x)
	}
	e.Facts = map[string]float64{"c": 5}
	if out, err = r.Judge(e); err != nil || out.Advice[0].Expect == nil || out.Advice[0].Expect.High != 5 {
		t.Errorf("%+v, %v", out, err)
	}
	var b strings.Builder
	if err := WriteText(&b, out, false); err != nil || !strings.Contains(b.String(), "expect: the first: 2.0 s now, 400 ms to 800 ms then") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Each lever can be set and put back, or says in words how.
func TestSettings(t *testing.T) {
	for _, f := range study.Levers() {
		level := f.Usual
		if level == "" && len(f.Examples) > 1 {
			level = f.Examples[1]
		}
		s := settingOf(f, level, &Evidence{})
		if s.words == "" || s.back(f, "installed") == "" || strings.Contains(s.yaml, "%!") || strings.Contains(s.words, "%!") {
			t.Errorf("%s: %+v", f.Name, s)
		}
	}
}

func TestLevers(t *testing.T) {
	r, _ := mine(t)
	text := "name: s\nquestion: q\ncontrol: {changes: 4}\nfactors: {push_throttle: [default, 100]}\n"
	s, err := study.Parse([]byte(text), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	list := r.Levers(&variables.Known{Version: "9.9", Variables: []variables.Variable{{Name: "PILOT_PUSH_THROTTLE", Default: "0", Help: "Limits."}, {Name: "OTHER"}}}, []*study.Study{s}, true)
	if len(list.Others) != 1 || len(list.Levers) != len(study.Levers()) {
		t.Errorf("%+v", list)
	}
	for _, l := range list.Levers {
		switch l.Name {
		case study.FactorPushThrottle:
			if l.Default != "0" || l.Help != "Limits." || len(l.Lacks) > 0 || len(l.Rules) != 1 || len(l.Studies) != 1 || strings.Join(l.Studies[0].Levels, " ") != "default 100" {
				t.Errorf("%+v", l)
			}
		case study.FactorDebounceAfter:
			if len(l.Lacks) != 1 {
				t.Errorf("%+v", l)
			}
		case study.FactorOutboundPolicy:
			if !l.Unknown {
				t.Errorf("%+v", l)
			}
		}
	}
	var b strings.Builder
	if err := WriteLevers(&b, list); err != nil || !strings.Contains(b.String(), "NOT HERE: this istiod has no PILOT_DEBOUNCE_AFTER") || !strings.Contains(b.String(), "meshtrial run s: default, 100") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
