package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/internal/lines"
)

// entry is a line of a book's file: one of the three kinds.
type entry struct {
	Client *ClientEntry `json:"client,omitempty"`
	Proxy  *ProxyEntry  `json:"proxy,omitempty"`
	Worker *WorkerEntry `json:"worker,omitempty"`
}

// Write writes the book's entries as JSON lines: for every request its client
// entries, then its proxies', then its workers'. Callers compress the file.
func (b *Book) Write(w io.Writer) error {
	b.sort()
	out := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	c, p, k := 0, 0, 0
	var err error
	write := func(e entry) {
		if err == nil {
			err = enc.Encode(e)
		}
	}
	for id := range uint32(len(b.names)) {
		for ; c < len(b.clients) && b.clients[c].id == id; c++ {
			e := b.client(&b.clients[c])
			write(entry{Client: &e})
		}
		for ; p < len(b.proxies) && b.proxies[p].id == id; p++ {
			e := b.proxy(&b.proxies[p])
			write(entry{Proxy: &e})
		}
		for ; k < len(b.workers) && b.workers[k].id == id; k++ {
			e := b.worker(&b.workers[k])
			write(entry{Worker: &e})
		}
		if err != nil {
			return fmt.Errorf("request log: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("request log: %w", err)
	}
	return nil
}

// Read reads the output of Write into a new book. The error names the line that
// is damaged or that no longer fits; the book contains all lines before it.
func Read(r io.Reader, options Options) (*Book, error) {
	b := New(options)
	number := 0
	for line, err := range lines.Of(r, maxLine) {
		if number++; err == nil && line.Long {
			err = bufio.ErrTooLong
		}
		if err == nil {
			err = b.read(line.Text)
		}
		if err != nil {
			return b, fmt.Errorf("request log, line %d: %w", number, err)
		}
	}
	return b, nil
}

// read adds an entry.
func (b *Book) read(line []byte) error {
	var e entry
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return err
	}
	switch {
	case e.Client != nil && e.Proxy == nil && e.Worker == nil:
		b.AddClient(*e.Client)
	case e.Proxy != nil && e.Client == nil && e.Worker == nil:
		b.AddProxy(*e.Proxy)
	case e.Worker != nil && e.Client == nil && e.Proxy == nil:
		b.AddWorker(*e.Worker)
	default:
		return errors.New("an entry is of a client, a proxy or a worker")
	}
	if b.Over() > 0 {
		return errors.New("that is more than a book holds")
	}
	return nil
}
