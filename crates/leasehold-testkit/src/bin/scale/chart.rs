//! Charts in SVG: both axes logarithmic, a line for each engine with its name at
//! its end. They are readable on light and on dark pages.

use std::fmt::Write;

use crate::number::short;
use crate::sheet::Sheet;
use crate::table;
use crate::work::{Figure, WORKS, Work};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 316.0;
/// Lines of text that are nearer than this cannot be read.
const APART: f64 = 13.0;
/// Of middle brightness, so that they stand out on white and on black.
const COLOURS: [&str; 13] = [
    "#888888", "#3b82f6", "#ef4444", "#ec4899", "#f97316", "#0d9488", "#a16207", "#8b5cf6",
    "#16a34a", "#c084fc", "#9d6fd0", "#4ade80", "#65a30d",
];
const STYLE: &str = "text{font:12px sans-serif;fill:#24292f}.t{font-weight:bold}\
    .g{stroke:#8884;stroke-width:1}path{fill:none;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}}";

/// The file of a figure's chart.
pub(crate) fn file(work: Work, figure: &Figure) -> String {
    format!("{}-{}.svg", work.name(), figure.key.replace('_', "-"))
}

/// The figures that have a chart, and enough to draw.
pub(crate) fn drawn(sheet: &Sheet, work: Work) -> impl Iterator<Item = &'static Figure> {
    work.figures().iter().filter(move |it| it.drawn && !Chart::of(sheet, work, it).lines.is_empty())
}

/// Every chart with the name of its file.
pub(crate) fn all(sheet: &Sheet) -> Vec<(String, String)> {
    let draw = |work, figure| (file(work, figure), Chart::of(sheet, work, figure).svg());
    let of = |work| drawn(sheet, work).map(move |figure| draw(work, figure));
    WORKS.into_iter().flat_map(of).collect()
}

struct Line {
    engine: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

struct Chart {
    title: String,
    lines: Vec<Line>,
    across: Scale,
    up: Scale,
}

/// From the logarithm of a value to a place on the page.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Whole powers of ten around all values.
    fn around(values: &[f64], from: f64, to: f64) -> Self {
        let logs = || values.iter().map(|value| value.log10());
        let low = logs().fold(f64::INFINITY, f64::min).floor();
        let high = logs().fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
        Self { low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power))
    }
}

impl Chart {
    fn of(sheet: &Sheet, work: Work, figure: &Figure) -> Self {
        let line = |(engine, colour): (&'static str, &&'static str)| Line {
            engine,
            colour,
            points: positive(sheet.line(engine, work, figure.key)),
        };
        let lines = table::names(sheet).zip(&COLOURS).map(line);
        let lines: Vec<Line> = lines.filter(|line| line.points.len() > 1).collect();
        let all = || lines.iter().flat_map(|line| line.points.iter());
        let across: Vec<f64> = all().map(|(size, _)| *size).collect();
        let up: Vec<f64> = all().map(|(_, value)| *value).collect();
        Self {
            title: format!("{}: {}, {}", work.name(), figure.title, figure.unit),
            across: Scale::around(&across, LEFT, RIGHT),
            up: Scale::around(&up, BOTTOM, TOP),
            lines,
        }
    }

    fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\"><title>{0}</title><style>{STYLE}</style>\n\
             <text class=\"t\" x=\"{LEFT}\" y=\"20\">{0}</text>\n",
            self.title
        );
        self.grid(&mut svg);
        self.lines.iter().for_each(|line| self.path(&mut svg, line));
        self.labels(&mut svg);
        svg + "</svg>\n"
    }

    fn grid(&self, svg: &mut String) {
        for size in self.across.decades() {
            let x = self.across.place(size);
            let _ = write!(svg, "<path class=\"g\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
            let (y, text) = (BOTTOM + 18.0, short(size));
            let _ =
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
        }
        for value in self.up.decades() {
            let y = self.up.place(value);
            let _ = write!(svg, "<path class=\"g\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            let (x, y, text) = (LEFT - 6.0, y + 4.0, short(value));
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
        }
    }

    fn path(&self, svg: &mut String, line: &Line) {
        let place = |(size, value): &(f64, f64)| {
            format!("{:.1} {:.1}", self.across.place(*size), self.up.place(*value))
        };
        let points: Vec<String> = line.points.iter().map(place).collect();
        let _ = writeln!(svg, "<path stroke=\"{}\" d=\"M{}\"/>", line.colour, points.join("L"));
    }

    /// Names at the ends of lines, pushed apart where lines end together.
    fn labels(&self, svg: &mut String) {
        let end = |line: &Line| line.points.last().map_or(BOTTOM, |point| self.up.place(point.1));
        let mut ends: Vec<(f64, &Line)> = self.lines.iter().map(|line| (end(line), line)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = TOP;
        for (y, line) in ends {
            let (y, x) = (y.max(free), RIGHT + 8.0);
            let _ = writeln!(
                svg,
                "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"{:.1}\">{}</text>",
                y,
                line.colour,
                x + 8.0,
                y + 4.0,
                line.engine
            );
            free = y + APART;
        }
    }
}

/// A logarithm wants more than nothing.
fn positive(line: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    line.into_iter().filter(|(_, value)| *value > 0.0).collect()
}
