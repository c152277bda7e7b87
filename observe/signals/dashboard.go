package signals

import (
	"encoding/json"
	"fmt"
	"io"
)

// The parts of a Grafana dashboard that are used here
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
type dashboard struct {
	Title         string     `json:"title"`
	UID           string     `json:"uid"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Version       int        `json:"version"`
	Editable      bool       `json:"editable"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"`
	Query string `json:"query"`
}

type panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	GridPos     gridPos      `json:"gridPos"`
	Datasource  *datasource  `json:"datasource,omitempty"`
	Targets     []query      `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type query struct {
	RefID        string      `json:"refId"`
	Datasource   *datasource `json:"datasource"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []any         `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	NoValue    string         `json:"noValue"`
	Thresholds *thresholds    `json:"thresholds,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

type thresholds struct {
	Mode  string          `json:"mode"`
	Steps []thresholdStep `json:"steps"`
}

type thresholdStep struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// groupTitles are the rows of the dashboard and of printed tables.
var groupTitles = map[string]string{
	GroupLatency: "Latency", GroupSaturation: "Saturation", GroupIn: "Traffic in", GroupOut: "Traffic out", GroupErrors: "Errors",
}

var grafanaUnits = map[string]string{UnitSeconds: "s", UnitRatio: "percentunit", UnitPerSecond: "ops", UnitBytes: "Bps", UnitCount: "short", "cores": "short"}

const (
	panelWidth, panelHeight, gridWidth = 8, 8, 24
	variableSource                     = "datasource"
)

// WriteDashboard writes a Grafana dashboard: a row for each group, a panel for
// each histogram with all its quantiles, and one for each other signal.
// Whoever imports it chooses the data source.
func WriteDashboard(w io.Writer, o Options) error {
	d := dashboard{
		Title: "Istio control plane: golden signals", UID: "meshtrial-golden-signals",
		Description: "Latency, saturation, traffic and errors of istiod, with the stages that pilot_proxy_convergence_time leaves out, and true convergence where meshtrial measures it.",
		Tags:        []string{"istio", "meshtrial"}, SchemaVersion: 39, Version: 1, Editable: true, Refresh: "5s",
		Time:       timeRange{"now-15m", "now"},
		Templating: templating{[]variable{{variableSource, "Data source", "datasource", "prometheus"}}},
	}
	source := &datasource{"prometheus", "${" + variableSource + "}"}
	x, y, group := 0, 0, ""
	add := func(p panel, width, height int) *panel {
		if x+width > gridWidth {
			x, y = 0, y+panelHeight
		}
		p.ID, p.GridPos = len(d.Panels)+1, gridPos{height, width, x, y}
		x += width
		d.Panels = append(d.Panels, p)
		return &d.Panels[len(d.Panels)-1]
	}
	var current *panel
	family := ""
	for _, s := range Table(o) {
		if s.Group != group {
			if x > 0 {
				x, y = 0, y+panelHeight
			}
			add(panel{Type: "row", Title: groupTitles[s.Group]}, gridWidth, 1)
			x, y, group = 0, y+1, s.Group
		}
		if s.Family == "" || s.Family != family {
			current = add(panel{Type: "timeseries", Title: panelTitle(s), Description: s.Note, Datasource: source, FieldConfig: fields(s),
				Options: map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
					"tooltip": map[string]any{"mode": "multi", "sort": "desc"}}}, panelWidth, panelHeight)
			family = s.Family
		}
		current.Targets = append(current.Targets, query{RefID: string(rune('A' + len(current.Targets))), Datasource: source, Expr: s.Expr, LegendFormat: legend(s)})
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

func panelTitle(s Signal) string {
	for _, f := range families {
		if s.Family == f.metric {
			return f.title + " (" + f.metric + ")"
		}
	}
	return s.Title
}

func legend(s Signal) string {
	switch {
	case s.Quantile > 0:
		return s.Quantile.Head()
	case s.Family != "":
		return "mean"
	case s.By != "":
		return "{{" + s.By + "}}"
	}
	return s.Key
}

// fields sets the unit, that nothing is shown as nothing and not as zero, and
// the bounds from which a value is bad.
func fields(s Signal) *fieldConfig {
	zero := 0.0
	f := &fieldConfig{Overrides: []any{}, Defaults: fieldDefaults{Unit: grafanaUnits[s.Unit], Min: &zero, NoValue: "no data",
		Custom: map[string]any{"spanNulls": false, "lineWidth": 1, "fillOpacity": 5}}}
	step := func(color string, at float64) thresholdStep { return thresholdStep{color, &at} }
	steps := []thresholdStep{{"green", nil}}
	switch {
	case s.Family == MetricLatency:
		steps = append(steps, step("orange", 1), step("red", 2))
	case s.Unit == UnitRatio:
		steps = append(steps, step("red", SaturatedAt))
	default:
		return f
	}
	f.Defaults.Thresholds = &thresholds{"absolute", steps}
	f.Defaults.Custom["thresholdsStyle"] = map[string]any{"mode": "line"}
	return f
}
