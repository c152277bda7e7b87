package signals

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/meshtrial/meshtrial/testing/must"
)

var exports = []Options{{}, {Selector: `cluster="one"`, Window: 5 * time.Minute}}

func TestWriteRules(t *testing.T) {
	for _, o := range exports {
		var text bytes.Buffer
		must.OK(t, WriteRules(&text, o))
		groups, problems := rulefmt.Parse(text.Bytes(), false, model.LegacyValidation, newParser())
		for _, p := range problems {
			t.Error(p)
		}
		records, alerts := map[string]string{}, map[string]rulefmt.Rule{}
		for _, g := range groups.Groups {
			if time.Duration(g.Interval) > 5*time.Second {
				t.Errorf("group %s looks every %s: an alert for 10 s needs more", g.Name, g.Interval)
			}
			for _, r := range g.Rules {
				if r.Record != "" {
					if records[r.Record] != "" {
						t.Errorf("%s twice", r.Record)
					}
					records[r.Record] = r.Expr
				} else {
					alerts[r.Labels["severity"]] = r
				}
			}
		}
		for _, s := range Table(o) {
			if records[RecordName(s)] != s.Expr {
				t.Errorf("%s is recorded as %q", s.Key, records[RecordName(s)])
			}
		}
		if len(records) != len(Table(o)) || len(alerts) != 2 {
			t.Errorf("%d records, %d alerts", len(records), len(alerts))
		}
		for severity, bound := range map[string]string{"warning": " > 1", "critical": " > 2"} {
			if a := alerts[severity]; !strings.HasSuffix(a.Expr, bound) || !strings.Contains(a.Expr, MetricLatency) || time.Duration(a.For) != 10*time.Second {
				t.Errorf("%s: %+v", severity, a)
			}
		}
		for _, stage := range []string{"debounce", "queue", "push_context", "convergence_true"} {
			if records["meshtrial:istiod_"+stage+"_p99_seconds"] == "" {
				t.Errorf("no rule for %s", stage)
			}
		}
	}
}

func TestWriteDashboard(t *testing.T) {
	for _, o := range exports {
		var text bytes.Buffer
		must.OK(t, WriteDashboard(&text, o))
		var d struct {
			Panels []struct {
				ID          int
				Type, Title string
				GridPos     struct{ X, Y, W, H int }
				Targets     []struct {
					RefID, Expr, LegendFormat string
					Datasource                struct{ UID string }
				}
				FieldConfig *struct {
					Defaults struct{ Unit, NoValue string }
				}
			}
		}
		must.OK(t, json.Unmarshal(text.Bytes(), &d))
		ids, cells, shown := map[int]bool{}, map[[2]int]string{}, []string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID <= 0 || p.Title == "" {
				t.Errorf("panel %d %q", p.ID, p.Title)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := cells[[2]int{x, y}]; other != "" || x >= gridWidth {
						t.Fatalf("%q lies over %q", p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if _, err := newParser().ParseExpr(q.Expr); err != nil {
					t.Errorf("%s: %v", p.Title, err)
				}
				if refs[q.RefID] || q.LegendFormat == "" || q.Datasource.UID != "${datasource}" {
					t.Errorf("%s: %+v", p.Title, q)
				}
				refs[q.RefID] = true
				shown = append(shown, q.Expr)
			}
			if (p.Type == "row") != (len(p.Targets) == 0) {
				t.Errorf("%s: a %s with %d expressions", p.Title, p.Type, len(p.Targets))
			}
			if p.FieldConfig != nil && (p.FieldConfig.Defaults.NoValue == "" || p.FieldConfig.Defaults.Unit == "") {
				t.Errorf("%s: %+v", p.Title, p.FieldConfig)
			}
		}
		for _, s := range Table(o) {
			if !slices.Contains(shown, s.Expr) {
				t.Errorf("%s is not shown", s.Key)
			}
		}
	}
}

// Signals in the table are unique, and in order of their groups.
func TestTable(t *testing.T) {
	order := []string{GroupLatency, GroupSaturation, GroupIn, GroupOut, GroupErrors}
	keys, last := map[string]bool{}, 0
	for _, s := range Table(Options{}) {
		if keys[s.Key] || s.Title == "" || s.Unit == "" || len(s.Metrics) == 0 {
			t.Errorf("%+v", s)
		}
		keys[s.Key] = true
		group := slices.Index(order, s.Group)
		if group < last {
			t.Errorf("%s stands after another group", s.Key)
		}
		last = group
		for _, m := range s.Metrics {
			if !strings.Contains(s.Expr, m) {
				t.Errorf("%s needs %s, which its expression does not have", s.Key, m)
			}
		}
		if groupTitles[s.Group] == "" || grafanaUnits[s.Unit] == "" {
			t.Errorf("%s: group %s, unit %s", s.Key, s.Group, s.Unit)
		}
	}
	// The published list of golden signals.
	for _, want := range []string{"convergence_istiod", "queue", "push"} {
		for _, q := range []string{"p50", "p90", "p99", "p999"} {
			if !keys[want+"_"+q] {
				t.Errorf("no %s_%s", want, q)
			}
		}
	}
	for _, want := range []string{"cpu_container", "cpu_process", "inbound_updates", "push_triggers", "services", "xds_pushes", "xds_proxies",
		"config_bytes", "rejects", "rejects_cds", "rejects_eds", "rejects_lds", "rejects_rds", "write_timeouts", "push_context_errors"} {
		if !keys[want] {
			t.Errorf("no %s", want)
		}
	}
}
