package cli

import (
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
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// planner is what plans of a kind of study say beside what all do.
type planner struct {
	columns func(p *study.Plan) []string // of a cell
	row     func(p *study.Plan, cell record.Cell) ([]string, error)
	deploys func(p *study.Plan) (string, error) // nil if a plan does not know
	time    string                              // what the estimate holds, or not
	// fill adds to a cell in JSON; nil if there is nothing to add.
	fill func(p *study.Plan, cell record.Cell, one *plannedCell) error
}

var planners = map[study.Kind]planner{
	study.DataPlane:    {always("load pod", "worker pod"), dataRow, deploysData, "without starting pods", fillData},
	study.ControlPlane: {controlColumns, controlRow, deploysControl, "without making the simulated pods", fillControl},
	study.Resilience:   {always("mesh", "expected"), scenarioRow, deploysScenario, "starting pods included", fillScenario},
}

// always are columns that all plans have.
func always(columns ...string) func(*study.Plan) []string {
	return func(*study.Plan) []string { return columns }
}

// plannerOf is that of a kind; of one that says nothing of its plans, what all
// kinds have.
func plannerOf(k study.Kind) planner {
	if one, ok := planners[k]; ok {
		return one
	}
	return planner{row: func(*study.Plan, record.Cell) ([]string, error) { return nil, nil }, time: "without starting pods"}
}

// writeCells prints a line for each cell that the study names.
func (k planner) writeCells(t io.Writer, p *study.Plan) error {
	head := []string{"cell", "compared with", "trials per block"}
	if k.columns != nil {
		head = append(head, k.columns(p)...)
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, cell := range givenCells(p) {
		against, trials := place(p, cell)
		own, err := k.row(p, cell)
		if err != nil {
			return err
		}
		fmt.Fprintln(t, strings.Join(append([]string{p.Label(cell), against, fmt.Sprint(trials)}, own...), "\t"))
	}
	return nil
}

// writePlan prints what a study comes to, for people: its cells, what each is
// compared with, and what it deploys.
func writePlan(w io.Writer, p *study.Plan, notes []app.PlanNote) error {
	s, e := p.Study, p.Estimate()
	fmt.Fprintf(w, "%s: %s\n%s\n\n", s.Name, s.Title, s.Question)
	k := plannerOf(s.Kind)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if s.Tune != nil { // which cells it tries, the search decides
		writeLevers(t, p)
	} else if err := k.writeCells(t, p); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	deployed := ""
	if k.deploys != nil {
		words, err := k.deploys(p)
		if err != nil {
			return err
		}
		deployed = "; " + words
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
	fmt.Fprintf(w, "\n%s, %s; %s%s\n", words.Plural(len(givenCells(p)), "cell"), trials, blocks, deployed)
	if nodes, zones := p.Spread(); nodes > 1 {
		fmt.Fprintf(w, "it needs %s in %s\n", words.Plural(nodes, "node"), words.Plural(zones, "zone"))
	}
	for _, one := range app.PlanNeeds(p) {
		fmt.Fprintln(w, "it needs "+one.Words)
	}
	writeSearches(w, p)
	writeTune(w, p)
	fmt.Fprintf(w, "time: %s, %s\n", span(e), k.time)
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	return writeFixed(w, p)
}

// givenCells are the cells of levels that the study names.
func givenCells(p *study.Plan) []record.Cell {
	return slices.DeleteFunc(slices.Clone(p.Cells), p.Refined)
}

// writeSearches says how each search goes: the levels it climbs, and how it
// comes closer.
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

// boundWords writes a bound as people say it.
func boundWords(q study.Quantity) string {
	if q.Unit == finding.UnitMicroseconds {
		return time.Duration(q.Value * float64(time.Microsecond)).String()
	}
	return q.String()
}

// place is what every plan says of a cell: what it is compared with, and how
// often it runs in a block.
func place(p *study.Plan, cell record.Cell) (against string, trials int) {
	against, trials = "-", 1
	if p.IsBaseline(cell) {
		trials = 2
	}
	if b, ok := p.BaselineOf(cell); ok && b.Key() != cell.Key() {
		against = p.Label(b)
	} else if ok {
		against = "itself (noise floor)"
	}
	return against, trials
}

func dataRow(_ *study.Plan, cell record.Cell) ([]string, error) {
	return []string{study.ClientVariant(cell).Name(), study.ServerVariant(cell).Name()}, nil
}

func deploysData(p *study.Plan) (string, error) {
	anew := ""
	switch n := p.Study.Blocks.Redeploy; n {
	case 0:
	case 1:
		anew = ", made anew for each block"
	default:
		anew = fmt.Sprintf(", made anew every %d blocks", n)
	}
	return fmt.Sprintf("pods at once: %d load, %d worker%s", p.LoadPods(), len(p.ServerVariants()), anew), nil
}

// deploysControl says what trials deploy. Each begins with a fresh istiod, so
// the trials of a block are istiod's restarts as well.
func deploysControl(p *study.Plan) (string, error) {
	connected, real := 0, 0
	for _, cell := range p.Cells {
		l, err := study.ControlOf(cell)
		if err != nil {
			return "", err
		}
		connected, real = max(connected, l.Connected()), max(real, l.RealPods)
	}
	out := fmt.Sprintf("at most %s in %s", proxies(connected), pods(p.Simulators()))
	if real > 0 {
		out += ", " + words.Plural(real, "real pod")
		if p.Study.Measured(study.MeasureSidecars) {
			out += " made anew for each trial"
		}
	}
	if p.Study.Control.Soak {
		return out + "; one istiod, and the real pods, live through all blocks", nil
	}
	return out + fmt.Sprintf("; istiod restarts before each trial, %s per block", words.Plural(p.Estimate().Trials, "time")), nil
}

func pods(n int) string {
	if n == 1 {
		return "one pod"
	}
	return words.Plural(n, "pod")
}

func proxies(n int) string {
	if n == 1 {
		return "1 simulated proxy"
	}
	return fmt.Sprintf("%d simulated proxies", n)
}

// plannedCell is a cell in the JSON of a plan.
type plannedCell struct {
	Cell    map[string]string `json:"cell"`
	Label   string            `json:"label"`
	Against map[string]string `json:"against,omitempty"`
	Trials  int               `json:"trials_per_block"`
	// Pods of a study of the data plane.
	Load   string `json:"load_pod,omitempty"`
	Worker string `json:"worker_pod,omitempty"`
	// Refined says that a search measures the cell only where it has to.
	Refined bool `json:"refined,omitempty"`
	// What a study of the control plane deploys.
	Deploys *plannedControl `json:"deploys,omitempty"`
	// Of a study of resilience: the mesh, the verdict that is expected, and the
	// pods of a trial.
	Mesh        string `json:"mesh,omitempty"`
	Expected    string `json:"expected,omitempty"`
	Clients     int    `json:"clients,omitempty"`
	ServicePods int    `json:"service_pods,omitempty"`
}

// plannedControl is what a cell of a study of the control plane deploys.
type plannedControl struct {
	Proxies  int `json:"simulated_sidecars"`
	Gateways int `json:"simulated_gateways"`
	Ztunnels int `json:"simulated_ztunnels,omitempty"`
	RealPods int `json:"real_pods"`
	Services int `json:"services"`
	// Istiod is how many pods of istiod are expected where Installed says that
	// there are as many as were installed.
	Istiod    int  `json:"istiod_pods"`
	Installed bool `json:"istiod_pods_as_installed,omitempty"`
	Restarts  int  `json:"istiod_restarts_per_block"`
}

func planCell(p *study.Plan, cell record.Cell) (plannedCell, error) {
	_, trials := place(p, cell)
	one := plannedCell{Cell: cell, Label: p.Label(cell), Trials: trials, Refined: p.Refined(cell)}
	if b, ok := p.BaselineOf(cell); ok {
		one.Against = b
	}
	if fill := plannerOf(p.Study.Kind).fill; fill != nil {
		if err := fill(p, cell, &one); err != nil {
			return one, err
		}
	}
	return one, nil
}

func fillData(_ *study.Plan, cell record.Cell, one *plannedCell) error {
	one.Load, one.Worker = study.ClientVariant(cell).Name(), study.ServerVariant(cell).Name()
	return nil
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
	for _, c := range p.Cells {
		one, err := planCell(p, c)
		if err != nil {
			return err
		}
		out.Cells = append(out.Cells, one)
	}
	return writeJSON(w, out)
}

// writeFixed says what a plan's cells have beside what their labels tell: what each
// variant sets, what there is where it sets nothing, and the levels that are the same in
// all of them.
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

// levelWords lists levels as --set takes them, by their factors' names.
func levelWords(levels record.Cell) string {
	var out []string
	for _, factor := range slices.Sorted(maps.Keys(levels)) {
		out = append(out, study.FlagText(factor, levels[factor]))
	}
	return strings.Join(out, " ")
}

// controlColumns has ztunnels where some cell has any.
func controlColumns(p *study.Plan) []string {
	out := []string{"simulated sidecars", "simulated gateways"}
	if simulatesZtunnels(p) {
		out = append(out, "simulated ztunnels")
	}
	return append(out, "real pods", "services", "istiod pods")
}

func simulatesZtunnels(p *study.Plan) bool {
	return slices.ContainsFunc(p.Cells, func(cell record.Cell) bool {
		l, err := study.ControlOf(cell)
		return err == nil && l.Ztunnels > 0
	})
}

func controlRow(p *study.Plan, cell record.Cell) ([]string, error) {
	l, err := study.ControlOf(cell)
	if err != nil {
		return nil, err
	}
	numbers := []int{l.Proxies, l.Gateways}
	if simulatesZtunnels(p) {
		numbers = append(numbers, l.Ztunnels)
	}
	var out []string
	for _, n := range append(numbers, l.RealPods, l.Services) {
		out = append(out, strconv.Itoa(n))
	}
	return append(out, cell[study.FactorIstiodReplicas]), nil // or as installed
}

func fillControl(_ *study.Plan, cell record.Cell, one *plannedCell) error {
	l, err := study.ControlOf(cell)
	if err != nil {
		return err
	}
	one.Deploys = &plannedControl{Proxies: l.Proxies, Gateways: l.Gateways, Ztunnels: l.Ztunnels, RealPods: l.RealPods,
		Services: l.Services, Istiod: l.IstiodReplicas, Installed: cell[study.FactorIstiodReplicas] == study.LevelInstalled, Restarts: one.Trials}
	return nil
}

// scenarioRow is the mesh of a cell, and the verdict that is expected of it.
func scenarioRow(p *study.Plan, cell record.Cell) ([]string, error) {
	expected := plannedVerdict(p, cell)
	if expected == "" {
		expected = "-"
	}
	return []string{cell[study.FactorMesh], expected}, nil
}

func fillScenario(p *study.Plan, cell record.Cell, one *plannedCell) error {
	c := p.Study.Scenario
	one.Mesh, one.Expected = cell[study.FactorMesh], plannedVerdict(p, cell)
	one.Clients, one.ServicePods = c.Clients, c.In(cell).Graph.Pods()
	return nil
}

// plannedVerdict is what is expected of a cell; "" if the study asserts
// nothing that it could fail.
func plannedVerdict(p *study.Plan, cell record.Cell) string {
	if len(p.Study.Assert) == 0 {
		return ""
	}
	return p.Study.Expected(cell)
}

// deploysScenario names the pods that each trial has for itself.
func deploysScenario(p *study.Plan) (string, error) {
	c := p.Study.Scenario
	least, most := math.MaxInt, 0
	for _, cell := range p.Cells {
		n := c.In(cell).Graph.Pods()
		least, most = min(least, n), max(most, n)
	}
	services := strconv.Itoa(most)
	if least < most {
		services = fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprintf("pods of a trial: %s, %s of services", words.Plural(c.Clients, "client"), services), nil
}
