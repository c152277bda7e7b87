package report

import (
	"encoding/json"

	"github.com/meshtrial/meshtrial/record"
)

// Chart is a value drawn as a picture, only on the page: text formats show the
// tables next to it. Exactly one of its kinds is set. Numbers are in the unit
// that their axis names. Texts for readers are formatted here, so renderers do
// not round anything.
type Chart struct {
	// Name describes in a sentence what the chart shows, for readers who cannot
	// see it.
	Name string `json:"name"`
	// Title is the heading of charts that appear side by side.
	Title string `json:"title,omitempty"`
	// Options are the switch positions that show the chart: a section shows
	// those of its charts whose options are all selected.
	Options []Option `json:"options,omitempty"`
	// Initial marks the charts whose options are selected at first; by default
	// that is the section's first chart.
	Initial bool `json:"initial,omitempty"`
	// Legend explains colours, hatching and marks; series are labelled
	// themselves.
	Legend []Key `json:"legend,omitempty"`

	Lines     *Lines          `json:"lines,omitempty"`
	Intervals *Intervals      `json:"intervals,omitempty"`
	Bars      *Bars           `json:"bars,omitempty"`
	Scatter   *Scatter        `json:"scatter,omitempty"`
	Heatmap   *Heatmap        `json:"heatmap,omitempty"`
	Timeline  *Timeline       `json:"timeline,omitempty"`
	Graph     *Graph          `json:"graph,omitempty"`
	Flame     json.RawMessage `json:"flame,omitempty"` // a profile.View
}

// Option is one position of a switch: "p99" of "percentile".
type Option struct {
	Switch string `json:"switch"`
	Choice string `json:"choice"`
}

// Key is an entry of a legend: a coloured box or a mark.
type Key struct {
	Text  string `json:"text"`
	Color string `json:"color,omitempty"`
	// Shape is "" for a box, KeyHatched, KeyMark or KeyBand.
	Shape string `json:"shape,omitempty"`
}

// Shapes of legend entries.
const (
	KeyHatched = "hatched"
	KeyMark    = "mark"
	KeyBand    = "band"
)

// Scales of axes.
const (
	AxisLinear = "linear"
	AxisLog    = "log"
	AxisNines  = "nines" // percentiles, with the slowest requests spread out
)

// Axis is a chart's scale.
type Axis struct {
	Title string `json:"title"` // including the unit of its values
	Scale string `json:"scale"`
	Zero  bool   `json:"zero,omitempty"` // the axis includes zero
	// Range is the range of the axis; if absent, its values determine it.
	Range *[2]float64 `json:"range,omitempty"`
	// Ticks are set if only these values occur.
	Ticks []Tick `json:"ticks,omitempty"`
}

// Tick is a labelled value of an axis.
type Tick struct {
	Value float64 `json:"value"`
	Text  string  `json:"text"`
}

// Look is how a series or row is distinguished.
type Look struct {
	Color string `json:"color"` // "series-1", "part-2", "ink-3"
	// Dash is the index of its dashes and marker; 0 is the most prominent.
	Dash int `json:"dash,omitempty"`
}

// Lines are curves, or points with intervals.
type Lines struct {
	X       Axis     `json:"x"`
	Y       Axis     `json:"y"`
	Series  []Series `json:"series"`
	Markers bool     `json:"markers,omitempty"`
}

// Series is a curve.
type Series struct {
	Label  string      `json:"label"`
	Cell   record.Cell `json:"cell,omitempty"` // hidden together with this cell
	Look   Look        `json:"look"`
	Points []Point     `json:"points"`
}

// Point is a point of a curve. At and Text are its coordinates as text; Low and
// High are its interval, if it has one.
type Point struct {
	X      float64  `json:"x"`
	Y      float64  `json:"y"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Hollow bool     `json:"hollow,omitempty"` // not significant, or a repeat
	At     string   `json:"at"`
	Text   string   `json:"text"`
}

// Intervals are estimates with intervals, one per row.
type Intervals struct {
	X    Axis          `json:"x"`
	Rows []IntervalRow `json:"rows"`
}

// IntervalRow is an estimate with its interval.
type IntervalRow struct {
	Label    string      `json:"label"`
	Cell     record.Cell `json:"cell,omitempty"`
	Look     Look        `json:"look"`
	Estimate float64     `json:"estimate"`
	Low      float64     `json:"low"`
	High     float64     `json:"high"`
	Hollow   bool        `json:"hollow,omitempty"` // not significant
	// Empty rows have no estimate; Text says why.
	Empty bool   `json:"empty,omitempty"`
	Text  string `json:"text"`
	// Noise is the half width of a band around zero; Mark is another value next
	// to the estimate.
	Noise float64  `json:"noise,omitempty"`
	Mark  *float64 `json:"mark,omitempty"`
}

// Bars are stacked bars, one per row.
type Bars struct {
	X    Axis     `json:"x"`
	Rows []BarRow `json:"rows"`
}

// BarRow is a stack of pieces.
type BarRow struct {
	Label  string      `json:"label"`
	Cell   record.Cell `json:"cell,omitempty"`
	Text   string      `json:"text"`
	Pieces []Piece     `json:"pieces"`
	Mark   *BarMark    `json:"mark,omitempty"` // what the stack is compared with
}

// Piece is one part of a stack.
type Piece struct {
	Color   string  `json:"color"`
	Value   float64 `json:"value"`
	Hatched bool    `json:"hatched,omitempty"`
	Text    string  `json:"text"`
}

// BarMark is a value with its interval next to a stack.
type BarMark struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Text  string  `json:"text"`
}

// Scatter shows points in two measures, with intervals along both.
type Scatter struct {
	X    Axis  `json:"x"`
	Y    Axis  `json:"y"`
	Dots []Dot `json:"dots"`
}

// Dot is a point of a scatter.
type Dot struct {
	X      [3]float64 `json:"x"` // estimate, low and high
	Y      [3]float64 `json:"y"`
	Look   Look       `json:"look"`
	Hollow bool       `json:"hollow,omitempty"`
	Text   string     `json:"text"`
}

// Heatmap counts by two measures: Counts has a row for each interval between two
// of YEdges, with a number for each interval between two of XEdges.
type Heatmap struct {
	X      Axis      `json:"x"`
	Y      Axis      `json:"y"`
	XEdges []float64 `json:"x_edges"`
	YEdges []float64 `json:"y_edges"`
	Counts [][]int64 `json:"counts"`
	What   string    `json:"what"` // what is counted: "requests"
	// Texts of rows and columns.
	XTexts []string `json:"x_texts"`
	YTexts []string `json:"y_texts"`
}

// Timeline shows what happened in intervals of time, with events across it. Each
// of its panels has bars or curves over the same time.
type Timeline struct {
	X      Axis    `json:"x"`    // seconds
	Step   float64 `json:"step"` // of bars
	Counts Counts  `json:"counts"`
	Y      Axis    `json:"y"` // of the curves
	Curves []Curve `json:"curves"`
	Events []Event `json:"events"`
}

// Counts are numbers in each interval of a timeline, as rates on axis Y, and the
// part of each kind in them.
type Counts struct {
	Y     Axis        `json:"y"`
	All   []float64   `json:"all"`
	Kinds []CountKind `json:"kinds"`
}

// CountKind is a part of all counts.
type CountKind struct {
	Name   string    `json:"name"`
	Color  string    `json:"color"`
	Values []float64 `json:"values"`
	Texts  []string  `json:"texts"`
}

// Curve is a value in each interval of a timeline; 0 means none.
type Curve struct {
	Label  string    `json:"label"`
	Look   Look      `json:"look"`
	Dots   bool      `json:"dots,omitempty"`
	Values []float64 `json:"values"`
}

// Event is something that begins on a timeline, and ends unless End is 0.
type Event struct {
	Name  string  `json:"name"`
	Begin float64 `json:"begin"`
	End   float64 `json:"end,omitempty"`
	Bad   bool    `json:"bad,omitempty"`
	Text  string  `json:"text"`
}

// Graph is a drawing of nodes and the edges between them, in units of one node.
type Graph struct {
	Width  float64     `json:"width"`
	Height float64     `json:"height"`
	Nodes  []GraphNode `json:"nodes"`
	Edges  []GraphEdge `json:"edges"`
}

// GraphNode is a box with a name and a line about its state.
type GraphNode struct {
	Name  string  `json:"name"`
	State string  `json:"state"`
	Bad   bool    `json:"bad,omitempty"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
}

// GraphEdge leads from one node to another; without Texts nothing passed along
// it.
type GraphEdge struct {
	From string       `json:"from"`
	To   string       `json:"to"`
	Via  [][2]float64 `json:"via,omitempty"`
	// Weight is the traffic along it, as a share of the largest of any edge.
	Weight float64 `json:"weight,omitempty"`
	Bad    bool    `json:"bad,omitempty"`
	Text   string  `json:"text,omitempty"`
	// Lines are shown next to it: the first two above, the others below.
	Lines []GraphLine `json:"lines,omitempty"`
}

// GraphLine is a line of text next to an edge; Short is used if there is little
// room.
type GraphLine struct {
	Text  string `json:"text"`
	Short string `json:"short"`
	Style string `json:"style,omitempty"` // "bad", "dim"
}
