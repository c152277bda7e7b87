package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/meshtrial/meshtrial/cli"
)

// document writes manual pages and shell completions to dir.
func (c commit) document(dir string) error {
	pages, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(pages, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root := cli.Root()
	root.DisableAutoGenTag = true // it contains the current date
	if err := doc.GenManTree(root, &doc.GenManHeader{Date: &c.time, Source: "meshtrial", Manual: "meshtrial"}, pages); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(completions, "meshtrial.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_meshtrial")),
		root.GenFishCompletionFile(filepath.Join(completions, "meshtrial.fish"), true))
}

// archive writes the archive for one processor. Everything in it is in the folder top.
func (c commit) archive(to, top, program, documents string) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	add := func(name, from string, mode int64) error {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(top, name), Size: int64(len(b)), Mode: mode, ModTime: c.time, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(b)
		return err
	}
	if err := add("meshtrial", program, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		if err := add(name, filepath.Join(c.dir, name), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err = fs.WalkDir(os.DirFS(documents), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return add(name, filepath.Join(documents, name), 0o644)
	})
	return errors.Join(err, t.Close(), z.Close(), f.Close())
}
