package study

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// MaxCells is the maximum number of cells in a study.
const MaxCells = 5000

// Plan is what a study expands to: its cells, the baseline of each, and the order of every block.
// The same study and seed yield the same plan on every machine.
type Plan struct {
	Study *Study
	Seed  uint64
	// Cells are the distinct cells in the study's order, as they take effect. Each holds a level of
	// every factor.
	Cells []record.Cell
	// Varying lists the study's factors with their levels.
	Varying []record.FactorLevels

	// requested is the first combination of levels that resolved to each cell.
	requested []record.Cell

	// given is the number of cells with levels that the study names; later cells are added by a
	// search.
	given int

	baseline []int  // index of the cell that each is compared with, -1 for none
	doubled  []bool // cells that others are compared with
	index    map[string]int
}

// Slot is one trial of a block: a cell of the plan, and which of the baseline's two turns it is.
type Slot struct {
	Cell   int
	Repeat int
}

// NewPlan makes the plan of a study. The seed orders the blocks. It is usually the study's own, or
// one chosen at random if that is 0.
func NewPlan(s *Study, seed uint64) (*Plan, error) {
	p := &Plan{Study: s, Seed: seed, Varying: s.Factors, index: map[string]int{}}
	total := 1
	for _, f := range s.Factors {
		if len(f.Levels) == 0 {
			return nil, planFault(CodeMissing, "", "%s has no levels", f.Factor).at("factors", f.Factor)
		}
		if total *= len(f.Levels); total > 10*MaxCells {
			return nil, planFault(CodeLimit, "", "more than %d combinations of levels", 10*MaxCells).at("factors")
		}
	}
	used := make([]bool, len(s.Exclude))
	for k, partial := range s.Exclude {
		for _, earlier := range s.Exclude[:k] {
			if partial.Key() == earlier.Key() {
				return nil, planFault(CodeDuplicate, "", "the same cells are excluded twice").at("exclude", k)
			}
		}
	}
	unasked := false
	for i := range total {
		requested := s.Settings.With(nil)
		rest := i
		for k := len(s.Factors) - 1; k >= 0; k-- {
			f := s.Factors[k]
			requested[f.Factor] = f.Levels[rest%len(f.Levels)]
			rest /= len(f.Levels)
		}
		if v, ok := s.VariantLevels(requested[FactorVariant]); ok {
			requested = requested.With(v)
		}
		excluded := false
		for k, partial := range s.Exclude {
			if requested.Has(partial) {
				excluded, used[k] = true, true
			}
		}
		if excluded {
			continue
		}
		if !s.asked(requested) {
			unasked = true
			continue
		}
		if s.asks(FactorMTLS, requested) && requested[FactorMTLS] == MTLSStrict && requested[FactorSidecars] == SidecarsServer {
			return nil, planFault(CodeConflict, "leave that cell out: exclude: [{sidecars: server, mtls: strict}]",
				"strict mutual TLS cannot serve a client without a sidecar (sidecars: server)").at("factors", FactorMTLS)
		}
		p.add(requested)
	}
	p.given = len(p.Cells)
	for k, ok := range used {
		if !ok && !s.ofLeftOut(s.Exclude[k]) {
			return nil, planFault(CodeNoCell, "name levels that the factors and settings give",
				"matches no cell of this study").at("exclude", k)
		}
	}
	switch {
	case len(p.Cells) > 0:
	case unasked:
		return nil, planFault(CodeNoCell, "name in at levels of cells that the study measures",
			"every search is restricted to levels that no cell has").at("search")
	default:
		return nil, planFault(CodeNoCell, "", "leaves no cell").at("exclude")
	}
	for _, requested := range s.refined(p.requested) {
		if !slices.ContainsFunc(s.Exclude, func(partial record.Cell) bool { return requested.Has(partial) }) {
			p.add(requested)
		}
	}
	if len(p.Cells) > MaxCells {
		return nil, planFault(CodeLimit, fmt.Sprintf("at most %d are possible; name fewer levels, or exclude combinations", MaxCells),
			"%d cells are too many", len(p.Cells)).at("factors")
	}
	return p, p.compare()
}

// effective returns a full cell as it takes effect and as the plan names it.
func (p *Plan) effective(cell record.Cell) record.Cell {
	return p.named(p.Study.Kind.Effective(cell))
}

// named returns a full cell as the plan names it.
func (p *Plan) named(cell record.Cell) record.Cell {
	return unsaid(p.Study.Kind.Factors(), cell, p.Study.Varies)
}

// add adds the cell of a combination of levels, unless the plan already has it.
func (p *Plan) add(requested record.Cell) {
	cell := p.effective(requested)
	key := cell.Key()
	if _, ok := p.index[key]; ok {
		return
	}
	p.index[key] = len(p.Cells)
	p.Cells = append(p.Cells, cell)
	p.requested = append(p.requested, requested)
}

// compare finds each cell's baseline.
func (p *Plan) compare() error {
	p.baseline = make([]int, len(p.Cells))
	p.doubled = make([]bool, len(p.Cells))
	for i, cell := range p.Cells {
		p.baseline[i] = -1
		if len(p.Study.Baseline) == 0 {
			continue
		}
		wanted := p.Study.over(p.requested[i], p.Study.Baseline)
		k, ok := p.index[p.effective(wanted).Key()]
		if !ok {
			return planFault(CodeNoCell, "add these levels to factors or settings and do not exclude them, or compare nothing (--set baseline={})",
				"cell %s would be compared with a cell that has %s, which is not measured", p.Label(cell), flowText(p.Study.Baseline)).at("baseline")
		}
		p.baseline[i] = k
		p.doubled[k] = true
	}
	return nil
}

// planError is an error that only the plan reveals, with the path of its field.
type planError struct {
	err  *Error
	path []any
}

func (e *planError) Error() string { return e.err.Error() }

func planFault(code Code, hint, format string, args ...any) *planError {
	return &planError{err: Complain(code, hint, format, args...)}
}

// at sets the field of the error; its name, or the factor's, begins the message.
func (e *planError) at(path ...any) *planError {
	about := path[0]
	if factor, ok := path[len(path)-1].(string); ok {
		about = factor
	}
	e.path, e.err.Msg = path, fmt.Sprintf("%v: %s", about, e.err.Msg)
	return e
}

func (s *Study) Varies(factor string) bool { return s.Varied(factor) != nil }

// asks reports whether the study varies a factor's level in a cell.
func (s *Study) asks(factor string, requested record.Cell) bool {
	v, _ := s.VariantLevels(requested[FactorVariant])
	_, named := v[factor]
	return named || s.Varies(factor)
}

// Index returns the index of a cell in Cells.
func (p *Plan) Index(cell record.Cell) (int, bool) {
	i, ok := p.index[cell.Key()]
	if !ok {
		i, ok = p.index[p.completed(cell).Key()]
	}
	return i, ok
}

// completed returns [Kind.Completed], as the plan names cells.
func (p *Plan) completed(cell record.Cell) record.Cell {
	return p.named(p.Study.Kind.Completed(cell).With(nil))
}

// Completed returns a cell of the kind with defaults for missing factors and canonical spelling of
// its levels.
func (k Kind) Completed(cell record.Cell) record.Cell {
	out := cell.With(nil)
	other := false
	for _, f := range k.Factors() {
		level, ok := out[f.Name]
		if !ok {
			out[f.Name], other = f.Default, true
		} else if today, err := f.Canonical(level); err == nil && today != level {
			out[f.Name], other = today, true
		}
	}
	if !other {
		return cell
	}
	return k.Effective(out)
}

// BaselineOf returns the cell that a cell of the plan is compared with. It returns false if the
// study compares nothing or the cell is not part of this plan. A baseline is its own baseline.
func (p *Plan) BaselineOf(cell record.Cell) (record.Cell, bool) {
	i, ok := p.Index(cell)
	if !ok || p.baseline[i] < 0 {
		return nil, false
	}
	return p.Cells[p.baseline[i]], true
}

// Doubled reports whether a cell runs twice in every block.
func (p *Plan) Doubled(cell int) bool { return p.doubled[cell] }

// IsBaseline reports whether other cells are compared with this one; it runs twice in every block.
func (p *Plan) IsBaseline(cell record.Cell) bool {
	i, ok := p.Index(cell)
	return ok && p.doubled[i]
}

// Matching returns the indexes of the cells that partial describes.
func (p *Plan) Matching(partial record.Cell) []int {
	var out []int
	for i, cell := range p.Cells {
		if p.Study.Kind.Matches(cell, partial) {
			out = append(out, i)
		}
	}
	return out
}

// StopCells returns the indexes of the cells whose intervals the study's stop rule watches; none
// without a rule.
func (p *Plan) StopCells() []int {
	if p.Study.Stop == nil {
		return nil
	}
	overhead := strings.HasSuffix(p.Study.Stop.Finding, "_overhead")
	var out []int
	for _, i := range p.Matching(p.Study.Stop.Of) {
		if !overhead || p.baseline[i] >= 0 && p.baseline[i] != i {
			out = append(out, i)
		}
	}
	return out
}

// Short returns the part of a cell that varies in this study.
func (p *Plan) Short(cell record.Cell) record.Cell {
	out := record.Cell{}
	for _, f := range p.Varying {
		if level, ok := cell[f.Factor]; ok {
			out[f.Factor] = level
		}
	}
	return out
}

// Label names a cell by its varying levels, for legends and progress: "both · 16 connections".
func (p *Plan) Label(cell record.Cell) string {
	var parts []string
	for _, f := range p.Varying {
		level := cell[f.Factor]
		if level == "" || level == NotApplicable {
			continue
		}
		parts = append(parts, p.Study.Kind.label(f.Factor, level))
	}
	if len(parts) == 0 {
		if name := cell[FactorVariant]; name != "" && p.Study.Kind.spec().OneVariant { // the only one measured
			return name
		}
		first := p.Study.Kind.Factors()[0]
		return first.Label(cell[first.Name])
	}
	return strings.Join(parts, " · ")
}

// BlockSize returns the number of trials of a block.
func (p *Plan) BlockSize() int {
	return len(p.Cells) + p.bases()
}

// Block returns the trials of block i (from 0) in random order: every cell once and baselines
// twice, not adjacent if any other trial can separate them. Every allowed order is equally likely.
func (p *Plan) Block(i int) []Slot {
	slots := make([]Slot, 0, p.BlockSize())
	for c := range p.Cells {
		slots = append(slots, Slot{Cell: c})
		if p.doubled[c] {
			slots = append(slots, Slot{Cell: c})
		}
	}
	random := rand.NewPCG(p.Seed, uint64(i))
	for {
		shuffle(slots, random)
		if len(p.Cells) == 1 || !adjacent(slots) {
			break
		}
	}
	// The first turn of a baseline is repeat 0.
	seen := make([]bool, len(p.Cells))
	for k := range slots {
		if seen[slots[k].Cell] {
			slots[k].Repeat = 1
		}
		seen[slots[k].Cell] = true
	}
	return slots
}

func adjacent(slots []Slot) bool {
	for k := 1; k < len(slots); k++ {
		if slots[k].Cell == slots[k-1].Cell {
			return true
		}
	}
	return false
}

// shuffle performs a Fisher-Yates shuffle (Knuth, The Art of Computer Programming, vol. 2, 3.4.2,
// algorithm P). It is written out because a recorded seed must yield the same order in every
// release of Go. The high word of a 128-bit product is uniform to within slots/2^64.
func shuffle(slots []Slot, random *rand.PCG) {
	for k := len(slots) - 1; k > 0; k-- {
		j, _ := bits.Mul64(random.Uint64(), uint64(k+1))
		slots[k], slots[j] = slots[j], slots[k]
	}
}

// TrialID names a trial by its block and its position in the block.
func TrialID(block, order int) string { return fmt.Sprintf("b%03d-t%02d", block, order) }

// CheckTrials reports the first trial that this plan would not have made, which means that the
// study or the seed differs.
func (p *Plan) CheckTrials(trials []record.Trial) error {
	blocks := map[int][]Slot{}
	for _, t := range trials {
		if t.Block < 0 || t.ID != TrialID(t.Block, t.Order) {
			return fmt.Errorf("trial %q of block %d, place %d is misnamed", t.ID, t.Block, t.Order)
		}
		slots, ok := blocks[t.Block]
		if !ok {
			slots = p.Block(t.Block)
			blocks[t.Block] = slots
		}
		if t.Order < 0 || t.Order >= len(slots) {
			return fmt.Errorf("trial %s: the plan has no such place in a block", t.ID)
		}
		s := slots[t.Order]
		if at, ok := p.Index(t.Cell); !ok || at != s.Cell || s.Repeat != t.Repeat {
			want := p.Cells[s.Cell]
			return fmt.Errorf("trial %s measured %s, where the plan has %s: another study or seed", t.ID, t.Cell.Key(), want.Key())
		}
	}
	return nil
}
