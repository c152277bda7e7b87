package trial

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// turns serializes the steps that change a service's workers. A worker holds one prepared change at
// a time, derived from its current behaviour, and drops it after a while. So a step is prepared
// ahead of time only if no step that will be undone is in force. A step that begins earlier takes
// over, and the displaced step prepares its change again when it begins.
type turns struct {
	one      chan struct{} // holds a value while in use
	waiting  *handover     // whose change the workers hold; nil: none
	standing int           // steps that have begun and will be undone
}

func newTurns() *turns { return &turns{one: make(chan struct{}, 1)} }

// take waits for exclusive access to the workers; leave releases it.
func (t *turns) take(ctx context.Context) error {
	select {
	case t.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) leave() { <-t.one }

// handover is one step's change to some workers of a service.
type handover struct {
	turns   *turns
	names   []string
	apis    []control.Client
	lives   func(worker int) bool // reports whether its pod still exists
	set     func(*control.Config)
	passing bool // undone before the timeline ends

	before, after []control.Config
	pending       *control.Pending // nil: the workers do not hold it
}

func newHandover(t *turns, names []string, apis []control.Client, lives func(int) bool, set func(*control.Config)) *handover {
	return &handover{turns: t, names: names, apis: apis, lives: lives, set: set,
		before: make([]control.Config, len(apis)), after: make([]control.Config, len(apis))}
}

// stage has the workers hold the change, if it is its turn.
func (c *handover) stage(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.turns.waiting != nil || c.turns.standing > 0 {
		return nil
	}
	if err := c.hand(ctx); err != nil {
		return err
	}
	c.turns.waiting = c
	return nil
}

// hand sends the workers the change, derived from their current behaviour.
func (c *handover) hand(ctx context.Context) (err error) {
	c.pending, err = control.StageAll(ctx, c.apis, func(i int, config *control.Config) {
		c.before[i] = *config
		c.set(config)
		c.after[i] = *config
	})
	return err
}

// begin applies the change.
func (c *handover) begin(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.passing {
		c.turns.standing++ // also on failure, since end is called anyway
	}
	if other := c.turns.waiting; other != nil && other != c {
		other.pending.Discard(ctx)
		other.pending = nil
	}
	c.turns.waiting = nil
	if c.pending == nil {
		if err := c.hand(ctx); err != nil {
			return err
		}
	}
	_, err := c.pending.Commit(ctx, time.Time{})
	return err
}

// prove reads back the workers' behaviour.
func (c *handover) prove(ctx context.Context) (string, error) {
	for i, api := range c.apis {
		now, err := api.Config(ctx)
		if err != nil {
			return "", fmt.Errorf("read the configuration of worker %s: %w", c.names[i], err)
		}
		want := c.after[i]
		want.Version, want.Schema = now.Version, now.Schema
		if !sameBehaviour(now, want) {
			return "", fmt.Errorf("worker %s has not applied the change", c.names[i])
		}
	}
	return fmt.Sprintf("%d of %d workers have applied it", len(c.apis), len(c.apis)), nil
}

// end reverts the change on the remaining workers.
func (c *handover) end(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.passing {
		c.turns.standing--
	}
	var all []error
	for i, api := range c.apis {
		if !c.lives(i) {
			continue
		}
		_, err := api.Update(ctx, func(config *control.Config) { undo(config, c.before[i], c.after[i]) })
		if err != nil && c.lives(i) {
			all = append(all, fmt.Errorf("worker %s: %w", c.names[i], err))
		}
	}
	return errors.Join(all...)
}

// undo restores the configuration values that a change replaced. It keeps later changes by other
// steps.
func undo(now *control.Config, before, after control.Config) {
	to, was, became := reflect.ValueOf(now).Elem(), reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range to.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), became.Field(i).Interface()) {
			to.Field(i).Set(was.Field(i))
		}
	}
}
