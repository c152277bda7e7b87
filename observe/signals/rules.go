package signals

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// ruleFile is Prometheus' file of recording and alerting rules
// (https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/).
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name     string     `yaml:"name"`
	Interval string     `yaml:"interval"`
	Rules    []ruleItem `yaml:"rules"`
}

type ruleItem struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// evaluateEvery is the evaluation interval of exported rules. An alert with a
// duration of 10 s needs several evaluations in that time.
const evaluateEvery = "5s"

// WriteRules writes a Prometheus rule file: each golden signal as a recording
// rule, and the two alerts.
func WriteRules(w io.Writer, o Options) error {
	file := ruleFile{}
	for _, s := range Table(o) {
		if n := len(file.Groups); n == 0 || file.Groups[n-1].Name != "meshtrial-"+dashes(s.Group) {
			file.Groups = append(file.Groups, ruleGroup{Name: "meshtrial-" + dashes(s.Group), Interval: evaluateEvery})
		}
		g := &file.Groups[len(file.Groups)-1]
		g.Rules = append(g.Rules, ruleItem{Record: RecordName(s), Expr: s.Expr})
	}
	alerts := ruleGroup{Name: "meshtrial-alerts", Interval: evaluateEvery}
	for _, r := range Rules(o) {
		alerts.Rules = append(alerts.Rules, ruleItem{
			Alert: r.Name, Expr: fmt.Sprintf("%s > %g", r.Expr, r.Above), For: promDuration(r.For),
			Labels: map[string]string{"severity": r.Severity},
			Annotations: map[string]string{
				"summary": r.Summary,
				"description": "p99 over " + promDuration(o.withDefaults().Window) + ": {{ $value | humanizeDuration }}. " +
					"Debounce, the push context, the wire and the acknowledgement are not in it.",
			},
		})
	}
	file.Groups = append(file.Groups, alerts)
	text, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# Golden signals of Istio's control plane, made by: meshtrial assess traffic export --format prometheus-rules\n%s", text)
	return err
}

// RecordName returns the name, with unit, under which a rule records a signal.
func RecordName(s Signal) string {
	suffix := map[string]string{UnitSeconds: "_seconds", UnitRatio: "_ratio", UnitPerSecond: "_per_second", UnitBytes: "_bytes_per_second", "cores": "_cores"}[s.Unit]
	return "meshtrial:istiod_" + s.Key + suffix
}

func dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }
