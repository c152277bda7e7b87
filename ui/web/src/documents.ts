// Generated from the types of the Go program by `make documents`: do not edit.
/**
 * What the page is given.
 */
export type PageDocument = Page;
/**
 * Page is a report as values: what the HTML page is given, and what text and Markdown
 * draw of it. Its strings are raw: formats escape them. Which sections there are, and what
 * they are about, no format knows. The types of ui/web/src/documents.ts are made from it:
 * make documents.
 */
export interface Page {
    readonly title: string;
    readonly question: string;
    /**
     * paragraphs, with empty lines between
     */
    readonly story: string;
    /**
     * Answers are the findings in words; the first is the headline.
     */
    readonly answers: (readonly string[] | null);
    /**
     * Facts are the run, the machine and the components.
     */
    readonly facts: (readonly Fact[] | null);
    /**
     * Warnings has each warning once, with the number of findings it stands at.
     */
    readonly warnings: (readonly string[] | null);
    /**
     * Failed says which of the study's assertions failed; "" for none.
     */
    readonly failed?: string;
    /**
     * Factors vary, and Cells are combinations of their levels: readers choose
     * which of them charts and tables show.
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
 * Fact is an entry of a page's head.
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
     * as cells have it
     */
    readonly factor: string;
    readonly name: string;
    readonly levels: (readonly string[] | null);
}
/**
 * Cell is one combination of levels: factor name to level, both in their
 * canonical spelling. Every factor of the study is present, also those that
 * the study leaves at their default.
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
 * Chart is a value that is drawn as a picture, on the page only: text formats
 * show the tables beside it. Exactly one of its kinds is set. Numbers are in
 * the unit that their axis names; what readers see of them as text is written
 * here, so that a renderer rounds nothing.
 */
export interface Chart {
    /**
     * Name says what it shows, in a sentence, for readers who do not see it.
     */
    readonly name: string;
    /**
     * Title stands above it where charts stand side by side.
     */
    readonly title?: string;
    /**
     * Options are the switches that show it: of a section's charts those are
     * shown whose options are all chosen.
     */
    readonly options?: readonly Option[];
    /**
     * Initial charts name the options that are chosen at first; without any the
     * section's first chart does.
     */
    readonly initial?: boolean;
    /**
     * Legend explains colours, hatching and marks; series explain themselves.
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
 * Option is a position of a switch: of "percentile", "p99".
 */
export interface Option {
    readonly switch: string;
    readonly choice: string;
}
/**
 * Key is an entry of a legend: a box of a colour, or a mark.
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
     * with the unit of its values
     */
    readonly title: string;
    readonly scale: string;
    /**
     * it includes zero
     */
    readonly zero?: boolean;
    /**
     * Range is from where to where it goes; absent if its values decide.
     *
     * @minItems 2
     * @maxItems 2
     */
    readonly range?: readonly [
        number,
        number
    ];
    /**
     * Ticks are fixed where only these values occur.
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
 * Series is one curve.
 */
export interface Series {
    readonly label: string;
    readonly cell?: Cell;
    readonly look: Look;
    readonly points: (readonly Point[] | null);
}
/**
 * Look is how a series or a row is told apart.
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
 * Point is a point of a curve. At and Text are its coordinates as readers see
 * them; Low and High its interval, if it has one.
 */
export interface Point {
    readonly x: number;
    readonly y: number;
    readonly low?: number;
    readonly high?: number;
    /**
     * not significant, or a repetition
     */
    readonly hollow?: boolean;
    readonly at: string;
    readonly text: string;
}
/**
 * Intervals are estimates with intervals, one a row.
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
     * Empty rows have no estimate: Text says why.
     */
    readonly empty?: boolean;
    readonly text: string;
    /**
     * Noise is the half width of a band around zero; Mark another figure beside
     * the estimate.
     */
    readonly noise?: number;
    readonly mark?: number;
}
/**
 * Bars are stacked bars, one a row.
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
 * Piece is a part of a stack.
 */
export interface Piece {
    readonly color: string;
    readonly value: number;
    readonly hatched?: boolean;
    readonly text: string;
}
/**
 * BarMark is a value with its interval beside a stack.
 */
export interface BarMark {
    readonly value: number;
    readonly low: number;
    readonly high: number;
    readonly text: string;
}
/**
 * Scatter has points in two measures, with intervals along both.
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
 * Heatmap counts by two measures: Counts has a row for each step between two of
 * YEdges, with a number for each step between two of XEdges.
 */
export interface Heatmap {
    readonly x: Axis;
    readonly y: Axis;
    readonly x_edges: (readonly number[] | null);
    readonly y_edges: (readonly number[] | null);
    readonly counts: (readonly (readonly number[] | null)[] | null);
    /**
     * is counted: "requests"
     */
    readonly what: string;
    /**
     * Rows and columns as readers see them.
     */
    readonly x_texts: (readonly string[] | null);
    readonly y_texts: (readonly string[] | null);
}
/**
 * Timeline is what happened in steps of time, with events across it. Each of its
 * panels has bars or curves over the same time.
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
 * Counts are numbers in each step of a timeline, as rates on axis Y, and how
 * much of them is of a kind.
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
 * Curve is a value in each step of a timeline; 0 is none.
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
 * GraphEdge leads from a node to another; without Texts nothing passed it.
 */
export interface GraphEdge {
    readonly from: string;
    readonly to: string;
    readonly via?: readonly (readonly [
        number,
        number
    ])[];
    /**
     * Weight is what passed it, as a share of the most that passed any.
     */
    readonly weight?: number;
    readonly bad?: boolean;
    readonly text?: string;
    /**
     * Lines stand beside it: the first two above, the others below.
     */
    readonly lines?: readonly GraphLine[];
}
/**
 * GraphLine is a line of text beside an edge; Short is for little room.
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
 * View is a profile as the page draws it: each path once, and weights by thread
 * and path. The page makes trees of it, of all, of a thread, or of the kernel.
 * Lists are columns, since there may be thousands of rows.
 */
export interface View {
    readonly title: string;
    readonly kind: string;
    readonly unit: string;
    readonly total: number;
    readonly samples: number;
    /**
     * Names are of frames; Modules of FrameModule.
     */
    readonly names: (readonly string[] | null);
    readonly modules: (readonly string[] | null);
    /**
     * FrameName, FrameModule and FrameFlags are by frame; flags are 1 for the
     * kernel, 2 for inlined, 4 for a module in place of a name.
     */
    readonly frame_name: (readonly number[] | null);
    readonly frame_module: (readonly number[] | null);
    readonly frame_flags: (readonly number[] | null);
    /**
     * Parent and Frame are by path; path 0 is the root, callers come first.
     */
    readonly parent: (readonly number[] | null);
    readonly frame: (readonly number[] | null);
    readonly threads: (readonly string[] | null);
    /**
     * SampleThread, SamplePath and SampleWeight are by thread and path.
     */
    readonly sample_thread: (readonly number[] | null);
    readonly sample_path: (readonly number[] | null);
    readonly sample_weight: (readonly number[] | null);
    /**
     * Folded is the weight that was added to callers, since paths were too thin
     * to be drawn.
     */
    readonly folded?: number;
    /**
     * share of samples in user space with a name
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
 * Costs is where a program's time went, by cost centre.
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
     * Filters are those of the configuration, if one was given, with what was
     * seen of them.
     */
    readonly filters?: readonly FilterCost[];
}
/**
 * CentreCost is a cost centre's cost. Each sample belongs to one centre, so that
 * weights add up to the total.
 */
export interface CentreCost {
    readonly group: string;
    readonly name: string;
    readonly weight: number;
    /**
     * Share is of all samples, with its 95% interval.
     */
    readonly share: number;
    readonly low: number;
    readonly high: number;
    /**
     * Kernel is the weight of samples in the kernel on behalf of the centre;
     * the kernel's own centres have it too.
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
     * the message's
     */
    readonly type?: string;
    /**
     * Plugin and Runtime are a Wasm filter's.
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
     * Shared says that other configured filters have the same functions, so
     * that the share is theirs too.
     */
    readonly shared?: boolean;
}
/**
 * ViewDiff is a difference by path of the view. Deltas are of shares.
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
 * Table is a table with a title and remarks under it.
 */
export interface Table {
    readonly title: string;
    readonly columns: (readonly Column[] | null);
    readonly rows: (readonly (readonly Text[] | null)[] | null);
    readonly notes?: readonly string[];
    /**
     * Texts are shown as they are, line by line, after the notes.
     */
    readonly texts?: readonly Listing[];
}
/**
 * Column is a table column. Keep orders columns by importance: when a table
 * is too wide, the columns with the lowest Keep above 0 go first; 0 is never
 * left out.
 */
export interface Column {
    readonly head: string;
    readonly right?: boolean;
    /**
     * Factor is that whose levels it has, "" for others.
     */
    readonly factor?: string;
}
/**
 * Text is a table cell and how it should look where colour is wanted.
 */
export interface Text {
    readonly text: string;
    readonly style?: string;
}
/**
 * Listing is a text that is kept as it is, such as a manifest.
 */
export interface Listing {
    readonly name: string;
    readonly text: string;
}
/**
 * Live is what a served page has beside its report.
 */
export interface Live {
    readonly status?: Status;
    /**
     * Links lead to other pages.
     */
    readonly links?: readonly Link[];
    /**
     * Runs are those of an index, the newest first; any two can be compared.
     */
    readonly runs?: readonly ListedRun[];
    /**
     * Studies have runs there; each has a trend.
     */
    readonly studies?: readonly string[];
    /**
     * Across are the differences that a comparison may ignore.
     */
    readonly across?: readonly string[];
    /**
     * Startable are the names of studies that a reader may start.
     */
    readonly startable?: readonly string[];
}
/**
 * Status is where a run stands.
 */
export interface Status {
    /**
     * Run is its ID, "" of one that has no directory yet.
     */
    readonly run?: string;
    readonly title: string;
    /**
     * Step is the latest step that the current trial reported.
     */
    readonly step?: string;
    readonly facts?: readonly Fact[];
    /**
     * Share of the most trials that the study may have.
     */
    readonly share: number;
    /**
     * Going: more is to come, from this server or another process.
     */
    readonly going?: boolean;
    /**
     * Stop and Resume: the reader may ask for it.
     */
    readonly stop?: boolean;
    readonly resume?: boolean;
    /**
     * Last: this is the last status that this server sends.
     */
    readonly last?: boolean;
}
/**
 * Link leads to another page of the same server, by its query.
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
