package studies

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

func load(t *testing.T, name string) (*study.Study, *study.Plan) {
	t.Helper()
	data, err := Read(name)
	must.OK(t, err)
	s, err := study.Parse(data, name+".yaml", nil)
	must.OK(t, err)
	p, err := study.NewPlan(s, 1)
	must.OK(t, err)
	return s, p
}

// Every study parses, has the name of its file, points editors at the schema, which has no fault to
// find with it, resolves to itself, only refers to cells that it measures, and requests nothing in
// vain. A flag can remove what it states besides its measurements, or change the currency.
//
// A title and a question stay true whatever --set changes: figures belong in the story, which is
// about the unmodified file. Versions are those of published results.
func TestShipped(t *testing.T) {
	digits := regexp.MustCompile(`[0-9]`)
	versions := regexp.MustCompile(`Istio [0-9.]+[0-9]`)
	counted := regexp.MustCompile(`(?i)\b(two|three|four|five|ten|twenty|hundred|thousand|million)( (times|requests|connections|changes|generators|samples|seconds|minutes)\b| and (two|three|four|more) )`)
	schema := validator(t)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s, p := load(t, name)
			if s.Name != name {
				t.Errorf("its name is %s", s.Name)
			}
			data, _ := Read(name)
			// A resilience study without steps is not a scenario: it compares the costs of meshes.
			happens := resilience.Of(s) != nil && len(resilience.Of(s).Timeline.Steps) > 0
			up := "../../"
			if happens {
				up = "../../../"
			}
			if !strings.HasPrefix(string(data), "# yaml-language-server: $schema="+up+"docs/study.schema.json\n") {
				t.Error("its first line does not name the schema")
			}
			least := 4
			if controlplane.Of(s) != nil || ingress.Of(s) != nil || len(s.Search) > 0 { // their trials are long and vary little; their later blocks try the ends again
				least = 2
			}
			if happens {
				if s.Story == "" || len(s.Assert) == 0 {
					t.Error("it has no story, or asserts nothing")
				}
			} else if len(s.Baseline) == 0 && len(s.Search) == 0 && (controlplane.Of(s) == nil || !controlplane.Of(s).Soak) || s.Blocks.Min < least {
				t.Error("it has no baseline, or too few blocks for an interval")
			}
			if e := p.Estimate(); s.Kind == study.ControlPlane && e.Min > s.Blocks.Limit {
				t.Errorf("%d blocks take %v, the limit is %v", s.Blocks.Min, e.Min, s.Blocks.Limit)
			}
			again, err := study.Parse(s.Marshal(), "resolved.yaml", nil)
			must.OK(t, err)
			if string(again.Marshal()) != string(s.Marshal()) {
				t.Error("resolved twice it differs")
			}
			resolved, err := study.NewPlan(again, 1)
			must.OK(t, err)
			for _, said := range append(p.Notes(), resolved.Unmeasured()...) {
				t.Error(said)
			}
			valid(t, schema, data)
			valid(t, schema, s.Marshal())
			var sets []string
			if s.Money != nil {
				sets = append(sets, "money=none", "money.currency=EUR")
			}
			if s.Sizing != nil {
				sets = append(sets, "sizing=none")
			}
			for _, set := range sets {
				if _, err := study.Parse(data, name, []string{set}); err != nil {
					t.Errorf("--set %s: %v", set, err)
				}
			}
			for _, text := range []string{s.Title, s.Question} {
				if digits.MatchString(versions.ReplaceAllString(text, "")) || counted.MatchString(text) {
					t.Errorf("%q", text)
				}
			}
			for _, f := range s.Published {
				if len(p.Matching(f.Cell)) == 0 {
					t.Errorf("published %q: no cell %v", f.Claim, f.Cell)
				}
			}
			for _, cell := range p.Cells {
				_, err := dataplane.LevelsOf(cell)
				switch s.Kind {
				case study.ControlPlane:
					_, err = controlplane.LevelsOf(cell)
				case resilience.Kind:
					_, err = resilience.LevelsOf(cell)
				case ingress.Kind:
					_, err = ingress.LevelsOf(cell)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Studies keep the durations given in the documentation.
func TestTimes(t *testing.T) {
	const podStart = 15 * time.Second
	for name, limit := range map[string]time.Duration{
		"quick":           90 * time.Second,
		"two-pod-latency": 15*time.Minute + 30*time.Second,
		"two-pod-cpu":     10 * time.Minute,

		"control-plane-tuning": 11*time.Minute + 15*time.Second,
		"sidecar-scope":        10 * time.Minute,
		"idle-sidecars":        13*time.Minute + 30*time.Second,
	} {
		_, p := load(t, name)
		if most := p.Estimate().Max + podStart; most > limit {
			t.Errorf("%s takes up to %v, more than %v", name, most, limit)
		}
	}
}

// The four blocks that an interval needs fit into quick's time limit even if every warm-up takes
// its maximum time.
func TestQuickReachesItsBlocks(t *testing.T) {
	s, p := load(t, "quick")
	slowest := time.Duration(p.BlockSize()) * (s.Warmup.Max + dataplane.Of(s).Window + 300*time.Millisecond)
	if end := time.Duration(s.Blocks.Min) * slowest; end > s.Blocks.Limit {
		t.Errorf("%d blocks may take %v, the limit is %v", s.Blocks.Min, end, s.Blocks.Limit)
	}
}

// Together the studies vary every factor.
func TestEveryFactorIsShown(t *testing.T) {
	varied := map[string]bool{}
	for _, name := range Names() {
		s, p := load(t, name)
		for _, f := range p.Varying {
			varied[f.Factor] = true
		}
		for _, v := range s.Variants {
			for factor := range v.Levels {
				varied[factor] = true
			}
		}
	}
	for _, f := range study.DataPlane.Factors() {
		if !varied[f.Name] {
			t.Errorf("no study varies %s", f.Name)
		}
	}
}

// Every study is once in the tables of its document, where users find it.
func TestTheTablesListEveryStudy(t *testing.T) {
	for file, want := range map[string][]string{"../../docs/method.md": namesIn("."), "../../docs/scenarios.md": ScenarioNames()} {
		data, err := os.ReadFile(file)
		must.OK(t, err)
		rows := strings.Join(regexp.MustCompile(`(?m)^\|.*`).FindAllString(string(data), -1), "\n")
		for _, name := range want {
			if n := strings.Count(rows, "`"+name+"`"); n != 1 {
				t.Errorf("%s: its tables name the study %s %d times", file, name, n)
			}
		}
	}
}

// If the table of scenarios says that no request may fail, no request may remain unfinished either,
// which the count of failed ones omits.
func TestScenariosThatMayLoseNothing(t *testing.T) {
	data, err := os.ReadFile("../../docs/scenarios.md")
	must.OK(t, err)
	none := 0
	for _, name := range ScenarioNames() {
		s, _ := load(t, name)
		asked := slices.ContainsFunc(s.Assert, func(e study.Expr) bool { return e.Text == "total.error_share == 0.0" })
		_, row, _ := strings.Cut(string(data), "\n| `"+name+"` |")
		columns := strings.Split(row, " | ")
		if says := len(columns) > 2 && columns[2] == "none"; says != asked {
			t.Errorf("%s asserts that all requests are answered: %v; the table says so: %v", name, asked, says)
		} else if says {
			none++
		}
	}
	if none == 0 {
		t.Error("no scenario asks that all requests are answered")
	}
}

func TestUnknownStudy(t *testing.T) {
	for _, name := range []string{"nope", "../study/doc", "", "quick.yaml", "/etc/passwd"} {
		if _, err := Read(name); err == nil {
			t.Errorf("%q is a study", name)
		}
	}
}
