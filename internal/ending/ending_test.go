package ending

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Reverting has its own time limit, whatever happened to the previous context,
// and debts are still recorded.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		debts := New(nil)
		ctx, cancel := context.WithTimeout(debts.In(t.Context()), time.Second)
		cancel()
		limited, end := Within(ctx, time.Minute)
		defer end()
		begin := time.Now()
		Owe(limited, "a", "b")
		if limited.Err() != nil || len(debts.Open()) != 1 {
			t.Errorf("%v, %v", limited.Err(), debts.Open())
		}
		<-limited.Done()
		if took := time.Since(begin); took != time.Minute || !errors.Is(limited.Err(), context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, limited.Err())
		}
	})
}

func TestOweWithoutAnAccount(t *testing.T) {
	paid := Owe(t.Context(), "a", "b")
	paid()
	paid()
}

// In any order of debts and payments, the open debts are those not paid, the
// latest first, and the first debt is reported once.
func TestDebts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := 0
		debts := New(func() { told++ })
		ctx := debts.In(context.Background())
		type owed struct {
			Debt
			paid func()
		}
		var model, settled []owed
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch what := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "what"); {
			case len(model) == 0 || rapid.Bool().Draw(t, "owe"):
				model = append(model, owed{Debt{what, "r"}, Owe(ctx, what, "r")})
			case len(settled) > 0 && rapid.Bool().Draw(t, "again"):
				settled[len(settled)-1].paid()
			default:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				model[i].paid()
				settled = append(settled, model[i])
				model = append(append([]owed{}, model[:i]...), model[i+1:]...)
			}
			var want []Debt
			for i := len(model) - 1; i >= 0; i-- {
				want = append(want, model[i].Debt)
			}
			if got := debts.Open(); !reflect.DeepEqual(got, want) {
				t.Fatalf("open: %v, want %v", got, want)
			}
			if told != 1 {
				t.Fatalf("the first debt was told %d times", told)
			}
		}
	})
}
