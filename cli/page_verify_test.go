//go:build verify

package cli

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/browsertest"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestPageOnLab uses the page of the program as a person does: starts quick, stops it after a
// trial, resumes it, and reads its report.
func TestPageOnLab(t *testing.T) {
	ctx := browsertest.Start(t)
	m, _ := labtest.Shared(t)
	folder := t.TempDir()
	page := m.Command(t, "page", folder)
	page.Dir = folder
	var said lockedBuffer
	page.Stderr = &said
	must.OK(t, page.Start())
	ended := make(chan error, 1)
	go func() { ended <- page.Wait() }()
	t.Cleanup(func() {
		_ = page.Process.Kill() // it has ended, or the test has failed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	var address []string
	eventually.Holds(t, "an address is printed", func() bool {
		address = regexp.MustCompile(`(?m)^page: (http://127\.0\.0\.1:\d+)(/\?token=\w+)$`).FindStringSubmatch(said.String())
		return address != nil
	})
	complaints := browsertest.Watch(t, ctx, address[1])
	browsertest.Size(t, ctx, 1200, 900)
	browsertest.Visit(t, ctx, address[1]+address[2])
	browsertest.Eval[bool](t, ctx, `(document.querySelector('#study-to-start').value = 'quick') === 'quick'`)
	browsertest.Press(t, ctx, "Start")
	await(t, ctx, 3*time.Minute, `[...document.querySelectorAll('a')].some(a => a.textContent === 'Look at this run')`)
	browsertest.Press(t, ctx, "Look at this run")
	await(t, ctx, 3*time.Minute, `document.querySelectorAll('#trials tbody tr').length > 0`)
	browsertest.Picture(t, ctx, "lab-running")
	browsertest.Press(t, ctx, "Stop the run")
	await(t, ctx, 3*time.Minute, `document.querySelector('.standing .title').textContent === 'The run was stopped'`)
	runs, err := filepath.Glob(filepath.Join(folder, "quick-*"))
	must.OK(t, err)
	if len(runs) != 1 {
		t.Fatalf("there are runs %q", runs)
	}
	kept, err := store.CountTrials(runs[0])
	must.OK(t, err)

	browsertest.Press(t, ctx, "Resume the run")
	await(t, ctx, 5*time.Minute, `document.querySelector('.standing .title').textContent.startsWith('The run has ended')`)
	await(t, ctx, time.Minute, `document.querySelector('.provisional') === null`)
	browsertest.Audit(t, ctx, "lab-ended")
	if n, err := store.CountTrials(runs[0]); err != nil || n <= kept {
		t.Errorf("after %d trials it was resumed and has %d, %v", kept, n, err)
	}
	answer := browsertest.Eval[string](t, ctx, `document.querySelector('h1').textContent`)
	browsertest.Press(t, ctx, "All runs")
	await(t, ctx, time.Minute, `document.querySelectorAll('#runs tbody tr').length === 1`)
	if row := browsertest.Eval[string](t, ctx, `document.querySelector('#runs tbody tr').textContent`); !strings.Contains(row, answer) {
		t.Errorf("the index says %q of a run whose report says %q", row, answer)
	}
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
	must.OK(t, page.Process.Signal(os.Interrupt))
	must.OK(t, <-ended)
}

// await waits until an expression holds for the page.
func await(t *testing.T, ctx context.Context, limit time.Duration, js string) {
	t.Helper()
	eventually.Within(t, limit, js, func() bool {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](js))
		return err == nil && holds
	})
}
