//! `docs/scale.md`: its words are written by hand, its tables and charts from the
//! sheet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_testkit::contest::Checked;

use crate::chart;
use crate::sheet::Sheet;
use crate::table;
use crate::work::{WORKS, Work};

/// The folder of the page in this checkout.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Where the charts are.
pub(crate) fn folder(docs: &Path) -> PathBuf {
    docs.join("scale")
}

/// Where the cells are.
pub(crate) fn sheet(docs: &Path) -> PathBuf {
    folder(docs).join("scale.json")
}

/// Writes the charts, and every part of the page that is made from cells.
pub(crate) fn write(docs: &Path, sheet: &Sheet) -> Checked {
    let files = files(docs, sheet)?;
    fs::create_dir_all(folder(docs))?;
    left_over(docs, &files)?.iter().try_for_each(fs::remove_file)?;
    Ok(files.iter().try_for_each(|(file, text)| fs::write(file, text))?)
}

/// Whether all is as [`write`] would leave it.
pub(crate) fn check(docs: &Path, sheet: &Sheet) -> Checked {
    let files = files(docs, sheet)?;
    let is_other =
        |(file, text): &(&PathBuf, &String)| fs::read_to_string(file).ok().as_ref() != Some(*text);
    let other = files.iter().filter(is_other).map(|(file, _)| file.clone());
    let wrong: Vec<PathBuf> = other.chain(left_over(docs, &files)?).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong: Vec<String> = wrong.iter().map(|file| file.display().to_string()).collect();
    let what = "not what is made of scale.json; `cargo xtask scale --page` writes it anew";
    Err(format!("{}: {what}", wrong.join(", ")).into())
}

/// All that is made of a sheet.
fn files(docs: &Path, sheet: &Sheet) -> Checked<BTreeMap<PathBuf, String>> {
    let charts = chart::all(sheet).into_iter();
    let mut files: BTreeMap<PathBuf, String> =
        charts.map(|(name, svg)| (folder(docs).join(name), svg)).collect();
    let file = docs.join("scale.md");
    let page = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    files.insert(file, filled(page, sheet)?);
    Ok(files)
}

/// Charts that nothing is drawn on any more.
fn left_over(docs: &Path, files: &BTreeMap<PathBuf, String>) -> Checked<Vec<PathBuf>> {
    let there = fs::read_dir(folder(docs))?.flatten().map(|entry| entry.path());
    let charts = there.filter(|file| file.extension().is_some_and(|it| it == "svg"));
    Ok(charts.filter(|file| !files.contains_key(file)).collect())
}

fn filled(mut page: String, sheet: &Sheet) -> Checked<String> {
    replace(&mut page, "machine", &table::servers(sheet))?;
    replace(&mut page, "limits", &table::limits(sheet))?;
    for work in WORKS {
        replace(&mut page, work.name(), &part(sheet, work))?;
    }
    Ok(page)
}

fn part(sheet: &Sheet, work: Work) -> String {
    let picture = |figure| format!("![{0}](scale/{0})\n", chart::file(work, figure));
    let pictures: String = chart::drawn(sheet, work).map(picture).collect();
    format!("{}\n{pictures}", table::of_work(sheet, work))
}

/// What is between the two marks.
fn replace(page: &mut String, mark: &str, text: &str) -> Checked {
    let (begin, end) = (format!("<!-- scale: {mark} -->\n"), format!("<!-- /scale: {mark} -->"));
    let lost = || format!("docs/scale.md has lost its marks `{}` and `{end}`", begin.trim_end());
    let from = page.find(&begin).ok_or_else(lost)? + begin.len();
    let to = page[from..].find(&end).ok_or_else(lost)? + from;
    page.replace_range(from..to, &format!("\n{}\n\n", text.trim_end()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn words_around_the_marks_stay() {
        let mut page = "a\n<!-- scale: x -->\nold\n<!-- /scale: x -->\nb".to_owned();
        replace(&mut page, "x", "new\n").unwrap();
        assert_eq!(page, "a\n<!-- scale: x -->\n\nnew\n\n<!-- /scale: x -->\nb");
        assert!(replace(&mut page, "y", "").is_err());
    }
}
