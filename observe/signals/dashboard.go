package signals

import (
	"encoding/json"
	"fmt"
	"io"
)

// groupTitles has the titles of dashboard rows and of groups in printed tables.
var groupTitles = map[string]string{
	GroupLatency: "Latency", GroupSaturation: "Saturation", GroupIn: "Traffic in", GroupOut: "Traffic out", GroupErrors: "Errors",
}

var grafanaUnits = map[string]string{UnitSeconds: "s", UnitRatio: "percentunit", UnitPerSecond: "ops", UnitBytes: "Bps", UnitCount: "short", "cores": "short"}

const panelWidth, panelHeight, gridWidth = 8, 8, 24

type object map[string]any

// WriteDashboard writes a Grafana dashboard: a row per group, a panel per histogram with all its
// quantiles, and a panel for each other signal. The data source is chosen on import. The format
// is that of
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/.
func WriteDashboard(w io.Writer, o Options) error {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	x, y, group, family := 0, 0, "", ""
	add := func(p object, width, height int) {
		if x+width > gridWidth {
			x, y = 0, y+panelHeight
		}
		p["id"], p["gridPos"] = len(panels)+1, object{"h": height, "w": width, "x": x, "y": y}
		x += width
		panels = append(panels, p)
	}
	var targets []object // of the latest panel
	for _, s := range Table(o) {
		if s.Group != group {
			if x > 0 {
				x, y = 0, y+panelHeight
			}
			add(object{"type": "row", "title": groupTitles[s.Group]}, gridWidth, 1)
			x, y, group = 0, y+1, s.Group
		}
		if s.Family == "" || s.Family != family {
			family, targets = s.Family, nil
			add(object{"type": "timeseries", "title": panelTitle(s), "description": s.Note, "datasource": source, "fieldConfig": fields(s),
				"options": object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true},
					"tooltip": object{"mode": "multi", "sort": "desc"}}}, panelWidth, panelHeight)
		}
		targets = append(targets, object{"refId": string(rune('A' + len(targets))), "datasource": source, "expr": s.Expr, "legendFormat": legend(s)})
		panels[len(panels)-1]["targets"] = targets
	}
	text, err := json.MarshalIndent(object{
		"title": "Istio control plane: golden signals", "uid": "meshtrial-golden-signals",
		"description": "Latency, saturation, traffic and errors of istiod, with the stages that pilot_proxy_convergence_time leaves out, " +
			"and true convergence where meshtrial measures it.",
		"tags": []string{"istio", "meshtrial"}, "schemaVersion": 39, "version": 1, "editable": true, "refresh": "5s",
		"time":       object{"from": "now-15m", "to": "now"},
		"templating": object{"list": []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}},
		"panels":     panels,
	}, "", "  ")
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

// fields sets the unit, the display of missing values as gaps rather than zero, and the
// thresholds of bad values.
func fields(s Signal) object {
	custom := object{"spanNulls": false, "lineWidth": 1, "fillOpacity": 5}
	defaults := object{"unit": grafanaUnits[s.Unit], "min": 0, "noValue": "no data", "custom": custom}
	steps := []object{{"color": "green", "value": nil}}
	switch {
	case s.Family == MetricLatency:
		steps = append(steps, object{"color": "orange", "value": 1}, object{"color": "red", "value": 2})
	case s.Unit == UnitRatio:
		steps = append(steps, object{"color": "red", "value": SaturatedAt})
	}
	if len(steps) > 1 {
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		custom["thresholdsStyle"] = object{"mode": "line"}
	}
	return object{"overrides": []any{}, "defaults": defaults}
}
