package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/unpack"
)

// openInput opens a file that the user named. Neither opening nor reading outlives ctx. Opening a
// pipe does not wait for a writer: reading a pipe without one returns EOF at once, and a pipe
// that stays silent is closed when ctx ends.
func openInput(ctx context.Context, path string) (io.ReadCloser, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errs.WithCode(err, errs.CodeUsage)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, errs.Usage("%s is a directory, not a file", path)
	}
	return &input{ctx: ctx, file: file, stop: context.AfterFunc(ctx, func() { file.Close() })}, nil
}

type input struct {
	ctx  context.Context
	file *os.File
	stop func() bool
}

func (in *input) Read(b []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := in.file.Read(b)
	if err != nil && in.ctx.Err() != nil {
		err = in.ctx.Err()
	}
	return n, err
}

func (in *input) Close() error {
	if !in.stop() {
		return nil // ctx closed the file
	}
	return in.file.Close()
}

// readInput reads a file that the user named and that has at most limit bytes.
func readInput(ctx context.Context, path string, limit int64) ([]byte, error) {
	in, err := openInput(ctx, path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errs.WithCode(err, errs.CodeUsage)
	case int64(len(data)) > limit:
		return nil, errs.Usage("%s has more than the %d bytes that belong there", path, limit)
	}
	return data, nil
}

// withFile passes f the contents of a file, decompressed; "-" is standard input. Reading ends
// with ctx, and errors name the file.
func withFile(ctx context.Context, env *Env, name string, f func(io.Reader) error) error {
	var in io.Reader
	if name == "-" && env != nil {
		in, name = untilDone{ctx, env.Stdin}, "standard input"
	} else {
		file, err := openInput(ctx, name)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	in, err := unpack.Reader(in)
	if err != nil {
		return errs.Usage("%s: %v", name, err)
	}
	if err := f(in); err != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// untilDone is a reader that fails once its context has ended.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
