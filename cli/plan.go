package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// writePlan prints a study's plan as text: its cells, what each is compared with, and what it
// deploys.
func writePlan(w io.Writer, p *study.Plan, notes []app.PlanNote) error {
	s, e := p.Study, p.Estimate()
	cells, err := plannedCells(p)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n%s\n\n", s.Name, s.Title, s.Question)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if s.Tune != nil { // the search decides which cells to try
		fmt.Fprintln(t, "lever\tlevels")
		for _, f := range p.Varying {
			fmt.Fprintf(t, "%s\t%s\n", f.Factor, strings.Join(f.Levels, ", "))
		}
	} else {
		writeCells(t, p, cells)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	deployed, time := deploys(p, cells)
	if deployed != "" {
		deployed = "; " + deployed
	}
	blocks := words.Plural(s.Blocks.Max, "block")
	if s.Blocks.Min < s.Blocks.Max {
		blocks = fmt.Sprintf("%d to %s", s.Blocks.Min, blocks)
	}
	trials := words.Plural(e.Trials, "trial") + " per block"
	if s.Chooses() {
		trials = "at most " + trials
	}
	if s.Tune != nil {
		blocks = "as many blocks as the search takes"
	}
	given := slices.DeleteFunc(slices.Clone(cells), func(c plannedCell) bool { return c.Refined })
	fmt.Fprintf(w, "\n%s, %s; %s%s\n", words.Plural(len(given), "cell"), trials, blocks, deployed)
	if nodes, zones := p.Spread(); nodes > 1 {
		fmt.Fprintf(w, "it needs %s in %s\n", words.Plural(nodes, "node"), words.Plural(zones, "zone"))
	}
	for _, one := range app.PlanNeeds(p) {
		fmt.Fprintln(w, "it needs "+one.Words)
	}
	writeSearches(w, p)
	writeTune(w, p)
	fmt.Fprintf(w, "time: %s, %s\n", span(e), time)
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	return writeFixed(w, p)
}

// writeCells prints a line for each cell whose levels the study names.
func writeCells(w io.Writer, p *study.Plan, cells []plannedCell) {
	ztunnels := slices.ContainsFunc(cells, func(c plannedCell) bool { return c.Deploys != nil && c.Deploys.Ztunnels > 0 })
	head := []string{"cell", "compared with", "trials per block"}
	switch p.Study.Kind {
	case study.DataPlane:
		head = append(head, "load pod", "worker pod")
	case study.ControlPlane:
		head = append(head, "simulated sidecars", "simulated gateways")
		if ztunnels {
			head = append(head, "simulated ztunnels")
		}
		head = append(head, "real pods", "services", "istiod pods")
	case resilience.Kind:
		head = append(head, "mesh", "expected")
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, c := range cells {
		if c.Refined {
			continue
		}
		against := "-"
		if c.Against != nil && c.Against.Key() == c.Cell.Key() {
			against = "itself (noise floor)"
		} else if c.Against != nil {
			against = p.Label(c.Against)
		}
		row := []string{c.Label, against, strconv.Itoa(c.Trials)}
		switch d := c.Deploys; p.Study.Kind {
		case study.DataPlane:
			row = append(row, c.Load, c.Worker)
		case study.ControlPlane:
			row = append(row, strconv.Itoa(d.Proxies), strconv.Itoa(d.Gateways))
			if ztunnels {
				row = append(row, strconv.Itoa(d.Ztunnels))
			}
			row = append(row, strconv.Itoa(d.RealPods), strconv.Itoa(d.Services), c.Cell[controlplane.FactorIstiodReplicas]) // number or "installed"
		case resilience.Kind:
			row = append(row, c.Mesh, cmp.Or(c.Expected, "-"))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
}

// writeSearches prints how each search proceeds: the levels it climbs, and how it refines its
// answer.
func writeSearches(w io.Writer, p *study.Plan) {
	for _, c := range p.Climbs() {
		var levels []string
		for _, i := range c.Cells {
			if !p.Refined(p.Cells[i]) {
				levels = append(levels, p.Cells[i][c.Search.Factor])
			}
		}
		at := p.Cells[c.Cells[0]].With(nil)
		delete(at, c.Search.Factor)
		where := ""
		if label := p.Label(at); len(p.Varying) > 1 {
			where = " at " + label
		}
		fmt.Fprintf(w, "search: the highest %s%s with %s of at most %s: climbs %s", c.Search.Factor, where, c.Search.Finding, boundWords(c.Search.Bound), strings.Join(levels, ", "))
		if _, halvings := p.Steps(c); halvings > 0 {
			fmt.Fprintf(w, ", then halves the interval to within %s, at most %s", c.Search.Tolerance, words.Plural(halvings, "time"))
			if apart := c.Apart(p); apart > float64(c.Search.Tolerance)*1.1 {
				fmt.Fprintf(w, ", which may end %.2g%% apart: give levels in between to come closer", 100*apart)
			}
		}
		fmt.Fprintln(w, "; later blocks measure both sides of the limit again, until the answers are sure")
	}
}

// boundWords returns a bound in words.
func boundWords(q study.Quantity) string {
	if q.Unit == finding.UnitMicroseconds {
		return time.Duration(q.Value * float64(time.Microsecond)).String()
	}
	return q.String()
}

// deploys returns what trials deploy, and what the time estimate includes or leaves out.
func deploys(p *study.Plan, cells []plannedCell) (text, time string) {
	switch p.Study.Kind {
	case study.DataPlane:
		text = fmt.Sprintf("pods at once: %d load, %d worker", dataplane.LoadPods(p), len(dataplane.ServerVariants(p)))
		switch n := p.Study.Blocks.Redeploy; n {
		case 0:
		case 1:
			text += ", recreated for each block"
		default:
			text += fmt.Sprintf(", recreated every %d blocks", n)
		}
		return text, "without starting pods"
	case study.ControlPlane:
		connected, real := 0, 0
		for _, c := range cells {
			connected, real = max(connected, c.Deploys.Proxies+c.Deploys.Gateways+c.Deploys.Ztunnels), max(real, c.Deploys.RealPods)
		}
		text = fmt.Sprintf("at most %s in %s", words.Plural(connected, "simulated proxy"), words.Plural(controlplane.Simulators(p), "pod"))
		if real > 0 {
			text += ", " + words.Plural(real, "real pod")
			if p.Study.Measured(controlplane.MeasureSidecars) {
				text += " recreated for each trial"
			}
		}
		if controlplane.Of(p.Study).Soak {
			text += "; one istiod, and the real pods, live through all blocks"
		} else { // each trial starts with a fresh istiod
			text += fmt.Sprintf("; istiod restarts before each trial, %s per block", words.Plural(p.Estimate().Trials, "time"))
		}
		return text, "without creating the simulated pods"
	case resilience.Kind:
		least, most := math.MaxInt, 0
		for _, c := range cells {
			least, most = min(least, c.ServicePods), max(most, c.ServicePods)
		}
		services := strconv.Itoa(most)
		if least < most {
			services = fmt.Sprintf("%d to %d", least, most)
		}
		return fmt.Sprintf("pods of a trial: %s, %s of services", words.Plural(resilience.Of(p.Study).Clients, "client"), services), "starting pods included"
	}
	return "", "without starting pods"
}

// plannedCell is a cell in the JSON form of a plan.
type plannedCell struct {
	Cell    record.Cell `json:"cell"`
	Label   string      `json:"label"`
	Against record.Cell `json:"against,omitempty"`
	Trials  int         `json:"trials_per_block"` // two for a baseline
	// Pods of a data-plane study.
	Load   string `json:"load_pod,omitempty"`
	Worker string `json:"worker_pod,omitempty"`
	// Refined says that a search measures the cell only if it needs to.
	Refined bool `json:"refined,omitempty"`
	// What a control-plane study deploys.
	Deploys *plannedControl `json:"deploys,omitempty"`
	// For a resilience study: the mesh, the expected verdict, and the pods of a trial.
	Mesh        string `json:"mesh,omitempty"`
	Expected    string `json:"expected,omitempty"`
	Clients     int    `json:"clients,omitempty"`
	ServicePods int    `json:"service_pods,omitempty"`
}

// plannedControl is what a cell of a control-plane study deploys.
type plannedControl struct {
	Proxies  int `json:"simulated_sidecars"`
	Gateways int `json:"simulated_gateways"`
	Ztunnels int `json:"simulated_ztunnels,omitempty"`
	RealPods int `json:"real_pods"`
	Services int `json:"services"`
	// Istiod is the expected number of istiod pods. Installed says that the actual number is as
	// installed.
	Istiod    int  `json:"istiod_pods"`
	Installed bool `json:"istiod_pods_as_installed,omitempty"`
	Restarts  int  `json:"istiod_restarts_per_block"`
}

func plannedCells(p *study.Plan) (out []plannedCell, err error) {
	for _, cell := range p.Cells {
		one := plannedCell{Cell: cell, Label: p.Label(cell), Trials: 1, Refined: p.Refined(cell)}
		if p.IsBaseline(cell) {
			one.Trials = 2
		}
		if b, ok := p.BaselineOf(cell); ok {
			one.Against = b
		}
		switch p.Study.Kind {
		case study.DataPlane:
			one.Load, one.Worker = dataplane.ClientVariant(cell).Name(), dataplane.ServerVariant(cell).Name()
		case study.ControlPlane:
			l, err := controlplane.LevelsOf(cell)
			if err != nil {
				return nil, err
			}
			one.Deploys = &plannedControl{Proxies: l.Proxies, Gateways: l.Gateways, Ztunnels: l.Ztunnels, RealPods: l.RealPods,
				Services: l.Services, Istiod: l.IstiodReplicas, Installed: cell[controlplane.FactorIstiodReplicas] == study.LevelInstalled, Restarts: one.Trials}
		case resilience.Kind:
			c := resilience.Of(p.Study)
			one.Mesh, one.Clients, one.ServicePods = cell[study.FactorMesh], c.Clients, c.In(cell).Graph.Pods()
			if len(p.Study.Assert) > 0 { // otherwise nothing can fail
				one.Expected = resilience.Expected(p.Study, cell)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

func writePlanJSON(w io.Writer, p *study.Plan, notes []app.PlanNote) error {
	e := p.Estimate()
	out := struct {
		Schema      int            `json:"schema"`
		Study       string         `json:"study"`
		Seed        uint64         `json:"seed"`
		Cells       []plannedCell  `json:"cells"`
		Trials      int            `json:"trials_per_block"`
		MinBlocks   int            `json:"min_blocks"`
		MaxBlocks   int            `json:"max_blocks"`
		MinDuration float64        `json:"min_duration_s"`
		MaxDuration float64        `json:"max_duration_s"`
		Notes       []app.PlanNote `json:"notes"`
		Nodes       int            `json:"nodes"`
		Zones       int            `json:"zones"`
		Needs       []string       `json:"needs"`
	}{1, p.Study.Name, p.Seed, nil, e.Trials, p.Study.Blocks.Min, p.Study.Blocks.Max, e.Min.Seconds(), e.Max.Seconds(), notes, 0, 0, []string{}}
	out.Nodes, out.Zones = p.Spread()
	for _, one := range app.PlanNeeds(p) {
		out.Needs = append(out.Needs, one.Name)
	}
	var err error
	if out.Cells, err = plannedCells(p); err != nil {
		return err
	}
	return writeJSON(w, out)
}

// writeFixed prints what the labels of a plan's cells do not show: what each variant sets, what
// applies where a variant sets nothing, and the levels that are the same in all cells.
func writeFixed(w io.Writer, p *study.Plan) error {
	for _, v := range p.VariedVariants() {
		sets := levelWords(v.Levels)
		if sets == "" {
			sets = "the settings as they are"
		}
		fmt.Fprintf(w, "variant %s: %s\n", v.Name, sets)
	}
	if others := p.Otherwise(); len(others) > 0 {
		slices.SortFunc(others, func(a, b record.FactorLevels) int { return strings.Compare(a.Factor, b.Factor) })
		words := make([]string, len(others))
		for i, f := range others {
			words[i] = f.Factor + "=" + strings.Join(f.Levels, " or ")
			if len(f.Levels) == 1 {
				words[i] = study.FlagText(f.Factor, f.Levels[0])
			}
		}
		fmt.Fprintf(w, "unless a variant says otherwise: %s\n", strings.Join(words, " "))
	}
	for _, f := range p.Unlike() {
		fmt.Fprintf(w, "not the same in all cells: %s=%s\n", f.Factor, strings.Join(f.Levels, " or "))
	}
	fixed, installed := p.Fixed(), []string{}
	for factor, level := range fixed {
		if level == study.LevelInstalled {
			installed = append(installed, factor)
			delete(fixed, factor)
		}
	}
	_, err := fmt.Fprintf(w, "fixed: %s\n", levelWords(fixed))
	if len(installed) > 0 && err == nil {
		slices.Sort(installed)
		_, err = fmt.Fprintf(w, "as installed: %s\n", strings.Join(installed, " "))
	}
	return err
}

// levelWords lists levels in the form that --set takes, sorted by factor name.
func levelWords(levels record.Cell) string {
	var out []string
	for _, factor := range slices.Sorted(maps.Keys(levels)) {
		out = append(out, study.FlagText(factor, levels[factor]))
	}
	return strings.Join(out, " ")
}

// writeTune prints what a tuning optimizes, and how.
func writeTune(w io.Writer, p *study.Plan) {
	t := p.Study.Tune
	if t == nil {
		return
	}
	var goals, bounds []string
	for _, g := range t.Objectives {
		goals = append(goals, g.String())
	}
	for _, b := range t.Constraints {
		text := b.String()
		if !b.Relative {
			text = b.Finding + "<=" + words.Quantity(b.Limit, b.Unit)
		}
		bounds = append(bounds, text)
	}
	fmt.Fprintf(w, "search: the lowest %s of %s", strings.Join(goals, ", "), words.Plural(len(p.Cells), "cell"))
	if len(bounds) > 0 {
		fmt.Fprintf(w, ", with %s", strings.Join(bounds, " and "))
	}
	fmt.Fprintf(w, ": at most %s, each block with the setting in use; then %s compare it with the best\n", words.Plural(p.TuneTrials(), "trial"), words.Plural(t.Confirm, "block"))
}
