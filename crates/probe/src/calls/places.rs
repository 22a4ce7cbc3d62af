//! Places in files where probes can stand.

use super::CallsError;
use crate::stack::image::{self, Image, ImageKey, Opened};
use crate::stack::maps::{self, Mapping};
use kneepoint_machine::proc::process;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;

/// How files of C libraries are called; that of a program that has none of them in a file of its
/// own is the program.
const C_LIBRARIES: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-musl"];

/// A place in a file where what is counted is passed.
#[derive(Debug)]
pub(crate) struct Place {
    /// Base name of the file.
    pub(crate) name: String,
    pub(crate) file: File,
    /// Where it is in the file.
    pub(crate) offset: u64,
    /// Where the counter is that has to be higher than 0.
    pub(crate) switch: Option<u32>,
}

/// Code that the processes map from files, each file once, with a process that does.
pub(super) fn mapped(family: &[u32]) -> Vec<(u32, Mapping)> {
    let mut known: BTreeSet<(String, u64)> = BTreeSet::new();
    let mut found = Vec::new();
    for pid in family {
        let text = process::mappings(*pid).unwrap_or_default();
        for mapping in maps::executable(&text) {
            let is_file = mapping.path.starts_with('/');
            if is_file && known.insert((mapping.path.clone(), mapping.inode)) {
                found.push((*pid, mapping));
            }
        }
    }
    found
}

/// The file behind a mapping, and what tells it from others.
pub(super) fn open(pid: u32, mapping: &Mapping) -> Result<(File, ImageKey), CallsError> {
    let file = || mapping.clean_path().to_owned();
    match image::open(pid, mapping) {
        Ok(Opened::File(file, key)) => Ok((file, key)),
        Ok(Opened::Memory(_)) => {
            Err(CallsError::Unreadable { file: file(), source: io::ErrorKind::NotFound.into() })
        }
        Err(source) => Err(CallsError::Unreadable { file: file(), source }),
    }
}

/// The place of an address of an image.
pub(super) fn place(
    image: &Image,
    file: &File,
    address: u64,
    switch: Option<u64>,
) -> Result<Place, CallsError> {
    let nowhere = |address: u64| CallsError::Kernel {
        what: format!("{}: nothing of the file is loaded at {address:#x}", image.name),
        source: io::ErrorKind::NotFound.into(),
    };
    let offset = image.offset_of(address).ok_or_else(|| nowhere(address))?;
    let switch = switch.map(|address| {
        let offset = image.offset_of(address).and_then(|offset| u32::try_from(offset).ok());
        offset.ok_or_else(|| nowhere(address))
    });
    let unreadable = |source| CallsError::Unreadable { file: image.name.clone(), source };
    Ok(Place {
        name: image.name.clone(),
        file: file.try_clone().map_err(unreadable)?,
        offset,
        switch: switch.transpose()?,
    })
}

/// Where these functions of the C library begin in what a process maps: each with its number in
/// the list. A function that is there in several versions has several places.
pub(crate) fn in_c_library(pid: u32, functions: &[&str]) -> Vec<(usize, Place)> {
    let all = mapped(&[pid]);
    let is_library =
        |mapping: &Mapping| C_LIBRARIES.iter().any(|begin| mapping.base_name().starts_with(begin));
    let any = all.iter().any(|(_, mapping)| is_library(mapping));
    let (mut seen, mut places) = (BTreeSet::new(), Vec::new());
    for (_, mapping) in all.iter().filter(|(_, mapping)| is_library(mapping) || !any) {
        let Ok((file, key)) = open(pid, mapping) else { continue };
        if !seen.insert(key.clone()) {
            continue;
        }
        let Ok(again) = file.try_clone() else { continue };
        let image = Image::load(0, mapping.base_name(), Opened::File(again, key), &[]);
        let (symbols, _) = image.functions();
        for (number, function) in functions.iter().enumerate() {
            let of_it = symbols.iter().filter(|symbol| symbol.source_name() == *function);
            let addresses: BTreeSet<u64> = of_it.map(|symbol| symbol.address).collect();
            let found = addresses.into_iter().filter_map(|at| place(&image, &file, at, None).ok());
            places.extend(found.map(|place| (number, place)));
        }
    }
    places
}
