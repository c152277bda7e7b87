package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/meshtrial/meshtrial/drive/xds"
)

// sightingsHead is the first document of the sightings. One document per marker
// follows.
type sightingsHead struct {
	Markers int `json:"markers"`
}

// Sightings reads the sightings of markers one by one, in the order of announcement.
type Sightings struct {
	Count int // of markers

	next int
	in   *json.Decoder
	body io.ReadCloser
}

// Sightings returns the sightings of the markers from index from on. Close them after
// reading.
func (c *Client) Sightings(ctx context.Context, from int) (*Sightings, error) {
	body, err := c.json.Stream(ctx, "/v1/sightings?from="+strconv.Itoa(from))
	if err != nil {
		return nil, err
	}
	s := &Sightings{in: json.NewDecoder(io.LimitReader(body, maxAnswer)), body: body}
	var head sightingsHead
	if err := s.read(&head); err != nil {
		body.Close()
		return nil, fmt.Errorf("xds control: sightings: %w", err)
	}
	s.Count = head.Markers
	return s, nil
}

func (s *Sightings) read(into any) error {
	err := s.in.Decode(into)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Next returns the sightings of the next marker, and [io.EOF] after the last.
func (s *Sightings) Next() (xds.MarkerSightings, error) {
	var m xds.MarkerSightings
	if s.next == s.Count {
		return m, io.EOF
	}
	err := s.read(&m)
	if err == nil && !m.Even() {
		err = errors.New("columns of different lengths")
	}
	if err != nil {
		return m, fmt.Errorf("xds control: sightings of marker %d of %d: %w", s.next, s.Count, err)
	}
	s.next++
	return m, nil
}

// All reads the remaining sightings.
func (s *Sightings) All() ([]xds.MarkerSightings, error) {
	out := []xds.MarkerSightings{}
	for {
		m, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
}

// Close stops reading.
func (s *Sightings) Close() error { return s.body.Close() }
