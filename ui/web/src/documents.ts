// Generated from the types of the Go program by `make documents`: do not edit.
/**
 * What the page is given.
 */
export type PageDocument = Page;
/**
 * Page is a report as values: the input of the HTML page, and what text and Markdown draw.
 * Its strings are raw, and formats escape them. No format knows which sections there are
 * or what they are about. `make documents` generates the types in ui/web/src/documents.ts
 * from it.
 */
export interface Page {
    readonly title: string;
    readonly question: string;
    /**
     * paragraphs separated by empty lines
     */
    readonly story: string;
    /**
     * Answers are the findings in words; the first is the headline.
     */
    readonly answers: (readonly string[] | null);
    /**
     * Facts describe the run, the machine and the components.
     */
    readonly facts: (readonly Fact[] | null);
    /**
     * Warnings lists each warning once, with the number of findings it applies to.
     */
    readonly warnings: (readonly string[] | null);
    /**
     * Failed says which of the study's assertions failed; "" if none did.
     */
    readonly failed?: string;
    /**
     * Factors are the factors that vary, and Cells the combinations of their levels:
     * readers choose which of them charts and tables show.
     */
    readonly factors: (readonly PageFactor[] | null);
    readonly cells: (readonly (Cell | null)[] | null);
    readonly sections: (readonly PageSection[] | null);
    /**
     * Study is the study file with all defaults, as YAML.
     */
    readonly study: string;
    readonly footer: string;
    /**
     * Provisional says that estimates can still change; "" if they cannot.
     */
    readonly provisional?: string;
    readonly live?: Live;
}
/**
 * Fact is an entry in the head of a page.
 */
export interface Fact {
    readonly name: string;
    readonly text: string;
}
/**
 * PageFactor is a factor that varies.
 */
export interface PageFactor {
    /**
     * as cells name it
     */
    readonly factor: string;
    readonly name: string;
    readonly levels: (readonly string[] | null);
}
/**
 * Cell is one combination of levels: factor name to level, both in canonical spelling. It
 * has every factor of the study, including those left at their default.
 */
export interface Cell {
    readonly [k: string]: string;
}
/**
 * PageSection is a section with its values.
 */
export interface PageSection {
    readonly name: string;
    readonly title: string;
    readonly lead?: string;
    readonly charts?: readonly Chart[];
    readonly tables?: readonly Table[];
}
/**
 * Chart is a value drawn as a picture, only on the page: text formats show the
 * tables next to it. Exactly one of its kinds is set. Numbers are in the unit
 * that their axis names. Texts for readers are formatted here, so renderers do
 * not round anything.
 */
export interface Chart {
    /**
     * Name describes in a sentence what the chart shows, for readers who cannot
     * see it.
     */
    readonly name: string;
    /**
     * Title is the heading of charts that appear side by side.
     */
    readonly title?: string;
    /**
     * Options are the switch positions that show the chart: a section shows
     * those of its charts whose options are all selected.
     */
    readonly options?: readonly Option[];
    /**
     * Initial marks the charts whose options are selected at first; by default
     * that is the section's first chart.
     */
    readonly initial?: boolean;
    /**
     * Legend explains colours, hatching and marks; series are labelled
     * themselves.
     */
    readonly legend?: readonly Key[];
    readonly lines?: Lines;
    readonly intervals?: Intervals;
    readonly bars?: Bars;
    readonly scatter?: Scatter;
    readonly heatmap?: Heatmap;
    readonly timeline?: Timeline;
    readonly graph?: Graph;
    readonly flame?: View;
}
/**
 * Option is one position of a switch: "p99" of "percentile".
 */
export interface Option {
    readonly switch: string;
    readonly choice: string;
}
/**
 * Key is an entry of a legend: a coloured box or a mark.
 */
export interface Key {
    readonly text: string;
    readonly color?: string;
    /**
     * Shape is "" for a box, KeyHatched, KeyMark or KeyBand.
     */
    readonly shape?: string;
}
/**
 * Lines are curves, or points with intervals.
 */
export interface Lines {
    readonly x: Axis;
    readonly y: Axis;
    readonly series: (readonly Series[] | null);
    readonly markers?: boolean;
}
/**
 * Axis is a chart's scale.
 */
export interface Axis {
    /**
     * including the unit of its values
     */
    readonly title: string;
    readonly scale: string;
    /**
     * the axis includes zero
     */
    readonly zero?: boolean;
    /**
     * Range is the range of the axis; if absent, its values determine it.
     *
     * @minItems 2
     * @maxItems 2
     */
    readonly range?: readonly [
        number,
        number
    ];
    /**
     * Ticks are set if only these values occur.
     */
    readonly ticks?: readonly Tick[];
}
/**
 * Tick is a labelled value of an axis.
 */
export interface Tick {
    readonly value: number;
    readonly text: string;
}
/**
 * Series is a curve.
 */
export interface Series {
    readonly label: string;
    readonly cell?: Cell;
    readonly look: Look;
    readonly points: (readonly Point[] | null);
}
/**
 * Look is how a series or row is distinguished.
 */
export interface Look {
    /**
     * "series-1", "part-2", "ink-3"
     */
    readonly color: string;
    /**
     * Dash is the index of its dashes and marker; 0 is the most prominent.
     */
    readonly dash?: number;
}
/**
 * Point is a point of a curve. At and Text are its coordinates as text; Low and
 * High are its interval, if it has one.
 */
export interface Point {
    readonly x: number;
    readonly y: number;
    readonly low?: number;
    readonly high?: number;
    /**
     * not significant, or a repeat
     */
    readonly hollow?: boolean;
    readonly at: string;
    readonly text: string;
}
/**
 * Intervals are estimates with intervals, one per row.
 */
export interface Intervals {
    readonly x: Axis;
    readonly rows: (readonly IntervalRow[] | null);
}
/**
 * IntervalRow is an estimate with its interval.
 */
export interface IntervalRow {
    readonly label: string;
    readonly cell?: Cell;
    readonly look: Look;
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
    /**
     * not significant
     */
    readonly hollow?: boolean;
    /**
     * Empty rows have no estimate; Text says why.
     */
    readonly empty?: boolean;
    readonly text: string;
    /**
     * Noise is the half width of a band around zero; Mark is another value next
     * to the estimate.
     */
    readonly noise?: number;
    readonly mark?: number;
}
/**
 * Bars are stacked bars, one per row.
 */
export interface Bars {
    readonly x: Axis;
    readonly rows: (readonly BarRow[] | null);
}
/**
 * BarRow is a stack of pieces.
 */
export interface BarRow {
    readonly label: string;
    readonly cell?: Cell;
    readonly text: string;
    readonly pieces: (readonly Piece[] | null);
    readonly mark?: BarMark;
}
/**
 * Piece is one part of a stack.
 */
export interface Piece {
    readonly color: string;
    readonly value: number;
    readonly hatched?: boolean;
    readonly text: string;
}
/**
 * BarMark is a value with its interval next to a stack.
 */
export interface BarMark {
    readonly value: number;
    readonly low: number;
    readonly high: number;
    readonly text: string;
}
/**
 * Scatter shows points in two measures, with intervals along both.
 */
export interface Scatter {
    readonly x: Axis;
    readonly y: Axis;
    readonly dots: (readonly Dot[] | null);
}
/**
 * Dot is a point of a scatter.
 */
export interface Dot {
    /**
     * estimate, low and high
     *
     * @minItems 3
     * @maxItems 3
     */
    readonly x: readonly [
        number,
        number,
        number
    ];
    /**
     * @minItems 3
     * @maxItems 3
     */
    readonly y: readonly [
        number,
        number,
        number
    ];
    readonly look: Look;
    readonly hollow?: boolean;
    readonly text: string;
}
/**
 * Heatmap counts by two measures: Counts has a row for each interval between two
 * of YEdges, with a number for each interval between two of XEdges.
 */
export interface Heatmap {
    readonly x: Axis;
    readonly y: Axis;
    readonly x_edges: (readonly number[] | null);
    readonly y_edges: (readonly number[] | null);
    readonly counts: (readonly (readonly number[] | null)[] | null);
    /**
     * what is counted: "requests"
     */
    readonly what: string;
    /**
     * Texts of rows and columns.
     */
    readonly x_texts: (readonly string[] | null);
    readonly y_texts: (readonly string[] | null);
}
/**
 * Timeline shows what happened in intervals of time, with events across it. Each
 * of its panels has bars or curves over the same time.
 */
export interface Timeline {
    readonly x: Axis;
    /**
     * of bars
     */
    readonly step: number;
    readonly counts: Counts;
    readonly y: Axis;
    readonly curves: (readonly Curve[] | null);
    readonly events: (readonly Event[] | null);
}
/**
 * Counts are numbers in each interval of a timeline, as rates on axis Y, and the
 * part of each kind in them.
 */
export interface Counts {
    readonly y: Axis;
    readonly all: (readonly number[] | null);
    readonly kinds: (readonly CountKind[] | null);
}
/**
 * CountKind is a part of all counts.
 */
export interface CountKind {
    readonly name: string;
    readonly color: string;
    readonly values: (readonly number[] | null);
    readonly texts: (readonly string[] | null);
}
/**
 * Curve is a value in each interval of a timeline; 0 means none.
 */
export interface Curve {
    readonly label: string;
    readonly look: Look;
    readonly dots?: boolean;
    readonly values: (readonly number[] | null);
}
/**
 * Event is something that begins on a timeline, and ends unless End is 0.
 */
export interface Event {
    readonly name: string;
    readonly begin: number;
    readonly end?: number;
    readonly bad?: boolean;
    readonly text: string;
}
/**
 * Graph is a drawing of nodes and the edges between them, in units of one node.
 */
export interface Graph {
    readonly width: number;
    readonly height: number;
    readonly nodes: (readonly GraphNode[] | null);
    readonly edges: (readonly GraphEdge[] | null);
}
/**
 * GraphNode is a box with a name and a line about its state.
 */
export interface GraphNode {
    readonly name: string;
    readonly state: string;
    readonly bad?: boolean;
    readonly x: number;
    readonly y: number;
}
/**
 * GraphEdge leads from one node to another; without Texts nothing passed along
 * it.
 */
export interface GraphEdge {
    readonly from: string;
    readonly to: string;
    readonly via?: readonly (readonly [
        number,
        number
    ])[];
    /**
     * Weight is the traffic along it, as a share of the largest of any edge.
     */
    readonly weight?: number;
    readonly bad?: boolean;
    readonly text?: string;
    /**
     * Lines are shown next to it: the first two above, the others below.
     */
    readonly lines?: readonly GraphLine[];
}
/**
 * GraphLine is a line of text next to an edge; Short is used if there is little
 * room.
 */
export interface GraphLine {
    readonly text: string;
    readonly short: string;
    /**
     * "bad", "dim"
     */
    readonly style?: string;
}
/**
 * View is a profile as the page draws it: distinct paths, and weights by thread
 * and path. The page builds trees from it for all threads, for one thread, or
 * for the kernel. Lists are columnar because there may be thousands of rows.
 */
export interface View {
    readonly title: string;
    readonly kind: string;
    readonly unit: string;
    readonly total: number;
    readonly samples: number;
    /**
     * Names has the names of frames; Modules is indexed by FrameModule.
     */
    readonly names: (readonly string[] | null);
    readonly modules: (readonly string[] | null);
    /**
     * FrameName, FrameModule and FrameFlags are indexed by frame. Flags are 1
     * for the kernel, 2 for inlined, 4 for a module in place of a name.
     */
    readonly frame_name: (readonly number[] | null);
    readonly frame_module: (readonly number[] | null);
    readonly frame_flags: (readonly number[] | null);
    /**
     * Parent and Frame are indexed by path; path 0 is the root, and callers
     * precede callees.
     */
    readonly parent: (readonly number[] | null);
    readonly frame: (readonly number[] | null);
    readonly threads: (readonly string[] | null);
    /**
     * SampleThread, SamplePath and SampleWeight have one entry per thread and
     * path.
     */
    readonly sample_thread: (readonly number[] | null);
    readonly sample_path: (readonly number[] | null);
    readonly sample_weight: (readonly number[] | null);
    /**
     * Folded is the weight that was added to callers because paths were too
     * thin to draw.
     */
    readonly folded?: number;
    /**
     * share of user-space samples with a name
     */
    readonly trust: number;
    /**
     * whether there are enough names to show functions
     */
    readonly enough: boolean;
    readonly advice?: readonly string[];
    readonly notes?: readonly string[];
    readonly costs?: Costs;
    readonly against?: ViewDiff;
}
/**
 * Costs is the distribution of a program's time over cost centres.
 */
export interface Costs {
    readonly total: number;
    readonly unit: string;
    readonly samples: number;
    /**
     * that intervals come from
     */
    readonly blocks: number;
    /**
     * of the intervals, in words
     */
    readonly method: string;
    readonly centres: (readonly CentreCost[] | null);
    /**
     * Filters has the filters of the configuration, if one was given, with their
     * observed cost.
     */
    readonly filters?: readonly FilterCost[];
}
/**
 * CentreCost is a cost centre's cost. Each sample belongs to one centre, so
 * weights add up to the total.
 */
export interface CentreCost {
    readonly group: string;
    readonly name: string;
    readonly weight: number;
    /**
     * Share is the share of all samples, with its 95% interval.
     */
    readonly share: number;
    readonly low: number;
    readonly high: number;
    /**
     * Kernel is the weight of samples in the kernel on behalf of the centre,
     * including the kernel's own centres.
     */
    readonly kernel?: number;
    /**
     * Within is the weight of samples with the centre anywhere in their
     * stack.
     */
    readonly within: number;
}
/**
 * FilterCost joins a configured filter to its cost centre.
 */
export interface FilterCost {
    /**
     * GroupHTTPFilter, GroupNetworkFilter, GroupListenerFilter
     */
    readonly group: string;
    /**
     * in the configuration
     */
    readonly name: string;
    /**
     * Centre is the name of its functions' cost centre.
     */
    readonly centre: string;
    /**
     * of the message
     */
    readonly type?: string;
    /**
     * Plugin and Runtime are set for Wasm filters.
     */
    readonly plugin?: string;
    readonly runtime?: string;
    /**
     * filter chains with it
     */
    readonly places: number;
    readonly share: number;
    readonly low: number;
    readonly high: number;
    /**
     * Within is the share of samples with it anywhere in their stack.
     */
    readonly within: number;
    readonly seen: boolean;
    /**
     * Shared means that other configured filters use the same functions, so the
     * share includes them.
     */
    readonly shared?: boolean;
}
/**
 * ViewDiff is a difference by path of the view. Deltas are differences of
 * shares.
 */
export interface ViewDiff {
    readonly title: string;
    readonly method: string;
    readonly before: DiffSide;
    readonly after: DiffSide;
    readonly path: (readonly number[] | null);
    readonly before_share: (readonly number[] | null);
    readonly after_share: (readonly number[] | null);
    readonly low: (readonly number[] | null);
    readonly high: (readonly number[] | null);
    readonly warnings?: readonly string[];
}
/**
 * DiffSide is one of the two measurements.
 */
export interface DiffSide {
    readonly total: number;
    readonly unit: string;
    readonly samples: number;
    readonly blocks: number;
}
/**
 * Table is a table with a title and remarks below it.
 */
export interface Table {
    readonly title: string;
    readonly columns: (readonly Column[] | null);
    readonly rows: (readonly (readonly Text[] | null)[] | null);
    readonly notes?: readonly string[];
    /**
     * Texts are shown verbatim, line by line, after the notes.
     */
    readonly texts?: readonly Listing[];
}
/**
 * Column is a table column. Keep ranks columns by importance: if a table is too
 * wide, the columns with the lowest Keep above 0 are dropped first; those with
 * 0 are never dropped.
 */
export interface Column {
    readonly head: string;
    readonly right?: boolean;
    /**
     * Factor is the factor whose levels it shows, "" for other columns.
     */
    readonly factor?: string;
}
/**
 * Text is a table cell and its look if colour is wanted.
 */
export interface Text {
    readonly text: string;
    readonly style?: string;
}
/**
 * Listing is a text that is kept verbatim, such as a manifest.
 */
export interface Listing {
    readonly name: string;
    readonly text: string;
}
/**
 * Live is what a served page has in addition to its report.
 */
export interface Live {
    readonly status?: Status;
    /**
     * Links are links to other pages.
     */
    readonly links?: readonly Link[];
    /**
     * Runs lists the runs of an index, the newest first; any two can be compared.
     */
    readonly runs?: readonly ListedRun[];
    /**
     * Studies lists the studies that have runs there; each has a trend.
     */
    readonly studies?: readonly string[];
    /**
     * Across lists the differences that a comparison may ignore.
     */
    readonly across?: readonly string[];
    /**
     * Startable lists the studies that a reader may start.
     */
    readonly startable?: readonly string[];
}
/**
 * Status is the progress of a run.
 */
export interface Status {
    /**
     * Run is its ID, "" if it has no directory yet.
     */
    readonly run?: string;
    readonly title: string;
    /**
     * Step is the latest step that the current trial reported.
     */
    readonly step?: string;
    readonly facts?: readonly Fact[];
    /**
     * Share is the share of the maximum number of trials that the study may have.
     */
    readonly share: number;
    /**
     * Going means that more will follow, from this server or another process.
     */
    readonly going?: boolean;
    /**
     * Stop and Resume say whether the reader may request it.
     */
    readonly stop?: boolean;
    readonly resume?: boolean;
    /**
     * Last marks the last status that this server sends.
     */
    readonly last?: boolean;
}
/**
 * Link leads to another page of the same server, given by its query.
 */
export interface Link {
    readonly text: string;
    readonly query: string;
}
/**
 * ListedRun is a run of an index. ID names it in queries.
 */
export interface ListedRun {
    readonly id: string;
    readonly name: string;
    readonly study: string;
    readonly started: string;
    readonly state: string;
    readonly answer: string;
    /**
     * it has no answer
     */
    readonly bad?: boolean;
}
