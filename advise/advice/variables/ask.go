package variables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const (
	// askTimeout bounds each question to the program.
	askTimeout = 30 * time.Second
	// maxPage bounds the reference page, in bytes; istiod 1.31 writes 97,000.
	maxPage = 16 << 20
	// maxProgram bounds the size of the program, in bytes; istiod 1.31 has 122
	// million.
	maxProgram = 1 << 30
	// maxOutput bounds how much of the program's output is kept, in bytes.
	maxOutput = 64 << 10
)

// Ask asks an istiod's program (pilot-discovery, of any version that has the
// command collateral). The program runs with an empty environment in a temporary
// folder, and contacts no cluster.
func Ask(ctx context.Context, program string) (known *Known, err error) {
	program, err = filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	hint := "name istiod's program: pilot-discovery, as in /usr/local/bin of its image"
	info, err := os.Stat(program)
	switch {
	case err != nil:
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "%s", hint)
	case !info.Mode().IsRegular() || info.Size() > maxProgram:
		return nil, errs.WithHint(errs.Usage("%s is not an istiod's program", program), "%s", hint)
	}
	dir, err := os.MkdirTemp("", "meshtrial-istiod-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := run(ctx, dir, program, "collateral", "--html_fragment_with_front_matter", "--outputDir",
		dir); err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "%s", hint)
	}
	page, err := onlyPage(dir)
	if err != nil {
		return nil, errs.WithHint(err, "%s", hint)
	}
	known, err = parsePage(page)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(fmt.Errorf("%s: %w", program, err), errs.CodeUsage),
			"this version writes its reference in another form, so its variables are unknown")
	}
	known.Source = program
	if version, err := run(ctx, dir, program, "version", "--short"); err == nil {
		known.Version = strings.TrimSpace(strings.TrimPrefix(string(version), "client version:"))
	}
	return known, nil
}

// run runs the program and returns its standard output.
func run(outer context.Context, dir, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(outer, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "TMPDIR=" + dir}
	cmd.WaitDelay = time.Second
	// End the program's children with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr head
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.kept, nil
	case outer.Err() != nil:
		err = context.Cause(outer)
	case ctx.Err() != nil:
		err = fmt.Errorf("it did not end within %s", askTimeout)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(stderr.kept)), "\n")
	return nil, fmt.Errorf("%s %s: %w %.200s", program, strings.Join(args, " "), err, line)
}

// head keeps the beginning of its input.
type head struct{ kept []byte }

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), maxOutput-len(h.kept))]...)
	return len(p), nil
}

// onlyPage reads the page that the program wrote.
func onlyPage(dir string) ([]byte, error) {
	pages, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(pages) != 1 {
		return nil, errors.Join(err, errs.Usage("the program wrote %d reference pages, not one", len(pages)))
	}
	info, err := os.Lstat(pages[0])
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPage {
		return nil, errs.Usage("the program's reference is not a file, or is larger than %d bytes", maxPage)
	}
	return os.ReadFile(pages[0])
}
