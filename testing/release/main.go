// Release makes the files of a release, as `make release` does:
//
//	git clone of a commit -> make build for each processor -> archives, SBOMs, notes, checksums
//
// Everything is a function of the commit: archives contain no time, user or path of this
// machine, so building the commit with the same Go gives the same bytes. A test in "verify"
// compares two releases.
//
//	release DIR
//
// DIR receives, for each processor, an archive with the program, the README, the license if
// there is one, manual pages and completions, and a list of the modules in the program
// (CycloneDX); then NOTES.md and SHA256SUMS. It replaces an earlier release there, and rejects
// a folder with other files.
package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// processors lists the processors to build archives for, by Go's names.
var processors = []string{"amd64", "arm64"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: release DIR")
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	changed, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("a release is of a commit, and these files differ from it: commit or stash them\n%s", changed)
	}
	return release(ctx, root, args[0])
}

// release makes dir the release of the repository's current commit, replacing an earlier one.
func release(ctx context.Context, repository, dir string) error {
	to, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := checkReplaceable(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(filepath.Dir(to), ".release-"); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	work, err := os.MkdirTemp("", "meshtrial-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := clone(ctx, repository, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	documents := filepath.Join(work, "documents")
	if err := c.document(documents); err != nil {
		return err
	}
	for _, processor := range processors {
		program := filepath.Join(work, processor, "meshtrial")
		if err := c.build(ctx, processor, program); err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("meshtrial_%s_linux_%s", info.Main.Version, processor)
		if err := c.archive(filepath.Join(dir, name+".tar.gz"), name, program, documents); err != nil {
			return err
		}
		if err := writeBill(filepath.Join(dir, name+".cdx.json"), info, c.time); err != nil {
			return err
		}
	}
	notes, err := c.notes(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "NOTES.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	if err := errors.Join(writeSums(dir), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(dir, to)
}

// checkReplaceable rejects a folder with files that do not belong to a release.
func checkReplaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sumsFile }) {
		return fmt.Errorf("%s has files but no %s, so it is no release to replace: name another folder, or empty it", dir, sumsFile)
	}
	return nil
}

// commit is what is released: a clone that nothing else modifies.
type commit struct {
	dir  string
	time time.Time
}

func clone(ctx context.Context, repository, dir string) (commit, error) {
	revision, err := output(ctx, repository, "git", "rev-parse", "HEAD")
	if err != nil {
		return commit{}, err
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-checkout", ".", dir},
		{"-C", dir, "-c", "advice.detachedHead=false", "checkout", "--quiet", revision},
	} {
		if _, err := output(ctx, repository, "git", args...); err != nil {
			return commit{}, err
		}
	}
	text, err := output(ctx, dir, "git", "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return commit{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return commit{dir, time.Unix(seconds, 0).UTC()}, err
}

// build builds the program by `make build`, stamped with the commit.
func (c commit) build(ctx context.Context, processor, to string) error {
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "build", "BIN="+to)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+processor, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "PWD="+c.dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make build for %s: %w", processor, err)
	}
	return nil
}

// notes lists the subjects of the commits since the last tag before this commit.
func (c commit) notes(ctx context.Context) (string, error) {
	commits, since := "HEAD", "the first commit"
	if tag, err := output(ctx, c.dir, "git", "describe", "--tags", "--abbrev=0", "HEAD^"); err == nil {
		commits, since = tag+"..HEAD", tag
	}
	subjects, err := output(ctx, c.dir, "git", "log", "--no-merges", "--format=- %s", commits)
	return fmt.Sprintf("Changes since %s:\n\n%s\n", since, subjects), err
}

// sumsFile is written last: a folder that has it is a release.
const sumsFile = "SHA256SUMS"

// writeSums writes the digests of the files in dir, as sha256sum does.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(sums.String()), 0o644)
}

// output runs a program in dir and returns its output.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(slices.Insert(args, 0, program), " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
