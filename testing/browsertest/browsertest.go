// Package browsertest opens pages in a headless Chromium and uses them as a reader does.
package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Start starts a headless Chromium that ends with the test, and skips the test if there is none.
func Start(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no browser")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine (Debian package chromium): the page was not looked at")
	}
	profile := profileFolder(t)
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(3*time.Minute), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		limited, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		if err := chromedp.Cancel(limited); err != nil {
			t.Logf("ending the browser: %v", err)
		}
		cancel()
		cancelAlloc()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// profileFolder returns a folder for Chromium's profile. It is not a [testing.T.TempDir], since
// Chromium's children may write into it for a while after it ends.
func profileFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "meshtrial-chromium-")
	must.OK(t, err)
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			t.Logf("the browser's profile stays: %v", err)
		}
	})
	return dir
}

// Watch collects what a page must not do: errors on the console, exceptions, dialogs, and requests
// beyond the file itself or the server.
func Watch(t *testing.T, ctx context.Context, file string) func() []string {
	t.Helper()
	listening, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	var mu sync.Mutex
	var bad []string
	add := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		bad = append(bad, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(listening, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			add("exception: %s at %s:%d", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber)
			if e.ExceptionDetails.Exception != nil {
				add("exception: %s", e.ExceptionDetails.Exception.Description)
			}
		case *runtime.EventConsoleAPICalled:
			add("console %s: %v", e.Type, e.Args)
		case *log.EventEntryAdded:
			add("log %s: %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			served := strings.HasPrefix(file, "http") && strings.HasPrefix(e.Request.URL, strings.TrimSuffix(file, "/")+"/")
			if e.Request.URL != file && !served {
				add("request of %s", e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			add("dialog: %s", e.Message)
			go func() {
				_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
			}()
		}
	})
	must.OK(t, err)
	must.OK(t, must.Err(chromedp.Call(ctx, network.Enable, network.EnableParams{})))
	must.OK(t, must.Err(chromedp.Call(ctx, log.Enable, cdp.Empty{})))
	return func() []string {
		stop()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(bad)
	}
}

// Visit opens an address and waits until the page is drawn.
func Visit(t *testing.T, ctx context.Context, address string) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	must.OK(t, chromedp.Do(limited, chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("#app[data-ready]"))))
}

// File is the address of a file.
func File(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// Size sets the size of the screen.
func Size(t *testing.T, ctx context.Context, width, height int64) {
	t.Helper()
	must.OK(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
}

// Shows waits until an expression holds for the page, which may be navigating.
func Shows(t *testing.T, ctx context.Context, what, js string) {
	t.Helper()
	eventually.Holds(t, what, func() bool {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](js))
		return err == nil && holds
	})
}

// Settle waits for two frames, so that charts have adapted to their new width.
const Settle = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 30))))`

// Eval returns the value of an expression, or of its promise, once charts are drawn.
func Eval[T any](t *testing.T, ctx context.Context, js string) T {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	must.OK(t, must.Err(chromedp.Run(limited, chromedp.Evaluate[bool](Settle, chromedp.EvalAwaitPromise))))
	out, err := chromedp.Run(limited, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return out
}

// Scheme sets the color scheme that the reader prefers.
func Scheme(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	must.OK(t, must.Err(chromedp.Call(ctx, emulation.SetEmulatedMedia, params)))
}

// Picture saves a screenshot if MESHTRIAL_PICTURES names a folder.
func Picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("MESHTRIAL_PICTURES")
	if dir == "" {
		return
	}
	Eval[bool](t, ctx, Settle)
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}
