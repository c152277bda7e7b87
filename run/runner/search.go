package runner

import (
	"context"
	"time"

	"github.com/meshtrial/meshtrial/study"
)

// A study that searches for the highest levels within a bound, or tunes levers, does
// not measure all cells of a block. Options.Next derives its next trial from the
// trials so far, so a resumed run continues where it stopped.

// searchBlock runs the remaining trials of a block of a search, and returns their
// number. late means that the study's time limit was reached before the end of the
// block.
func (r *run) searchBlock(ctx context.Context, block int) (measured int, late bool, err error) {
	slots := r.plan.Block(block)
	for {
		order, more, err := r.o.Next(r.plan, r.memory(), block)
		if err != nil || !more {
			return measured, false, err
		}
		if limit := r.o.Study.Blocks.Limit; limit > 0 && len(r.trials) > 0 && r.spent()+r.longest > limit {
			return measured, true, nil
		}
		at := r.now()
		if err := r.slot(ctx, block, order, slots, 0); err != nil {
			return measured, false, err
		}
		r.longest = max(r.longest, r.now().Sub(at))
		measured++
	}
}

// spent returns the elapsed time of this attempt at the run.
func (r *run) spent() time.Duration { return r.now().Sub(r.begin) }

// searches reports whether the study's trials depend on earlier ones.
func (r *run) searches() bool { return r.o.Study.Chooses() && r.o.Next != nil }

// slot measures one trial of a block and keeps it. trials is the number of trials in
// the block; 0 if not known yet.
func (r *run) slot(ctx context.Context, block, order int, slots []study.Slot, trials int) error {
	slot, id := slots[order], study.TrialID(block, order)
	cell := r.plan.Cells[slot.Cell]
	number := order + 1
	if trials == 0 {
		number = r.inBlock(block) + 1
	}
	say := Event{Stage: "trial", Block: block, Trial: number, Trials: trials, Cell: r.plan.Label(cell)}
	r.tell(say)
	trial, err := r.trial(ctx, Job{ID: id, Block: block, Cell: cell, Repeat: slot.Repeat, Seed: seedOf(r.header.Seed, id), BlockSeed: blockSeed(r.header.Seed, block)})
	if err != nil {
		return err
	}
	trial.Trial.ID, trial.Block, trial.Order, trial.Repeat = id, block, order, slot.Repeat
	if err := r.keep(trial); err != nil {
		return err
	}
	say.Record = &trial.Trial
	r.tell(say)
	if r.o.Kept != nil {
		return r.o.Kept(ctx)
	}
	return nil
}

// inBlock counts the completed trials of a block.
func (r *run) inBlock(block int) int {
	n := 0
	for i := range r.trials {
		if r.trials[i].Block == block {
			n++
		}
	}
	return n
}
