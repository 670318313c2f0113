package io.headrace.storage;

import io.delta.storage.CloseableIterator;
import io.delta.storage.HDFSLogStore;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Delta's log on a local disk: of several writers of a version, exactly one succeeds.
 *
 * <p>Delta writes a draft, looks whether the name is free, and renames; on a local disk, a rename replaces what another
 * writer has put there in between. Here the draft gets its name by a hard link, which the system makes only if the name
 * is free. A file system without hard links is written as Delta would.
 *
 * <p>A commit of 0 bytes, which a loss of power can leave behind, is refused. Delta takes it for a commit without
 * changes.
 */
public class LocalLogStore extends HDFSLogStore {
  private static final Pattern COMMIT = Pattern.compile("\\d{20}(\\.[0-9a-f-]{36})?\\.json");
  private static final Object RENAMING = new Object();

  public LocalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    java.nio.file.Path target = local(path);
    if (!overwrite && Files.exists(target)) {
      throw new FileAlreadyExistsException(target.toString());
    }
    java.nio.file.Path draft = local(createTempPath(path));
    try {
      writeDraft(draft, actions, conf);
      // Hadoop checks what it reads against such a file, and the one of an earlier file of this name does not fit.
      Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
      if (overwrite) {
        Files.move(draft, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } else {
        putIfAbsent(draft, target, path, conf);
      }
    } finally {
      Files.deleteIfExists(draft);
    }
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration conf) throws IOException {
    CloseableIterator<String> lines = super.read(path, conf);
    if (isCommit(path) && !lines.hasNext()) {
      lines.close();
      throw new EmptyCommitException(local(path).toString());
    }
    return lines;
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
    Iterator<FileStatus> files = super.listFrom(path, conf);
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return files.hasNext();
      }

      @Override
      public FileStatus next() {
        FileStatus file = files.next();
        if (file.getLen() == 0 && isCommit(file.getPath())) {
          throw new EmptyCommitException(local(file.getPath()).toString());
        }
        return file;
      }
    };
  }

  private void writeDraft(java.nio.file.Path draft, Iterator<String> actions, Configuration conf) throws IOException {
    try (FileChannel file = FileChannel.open(draft, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      FileModes.set(draft, FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf)));
      OutputStream lines = new BufferedOutputStream(Channels.newOutputStream(file), 1 << 16);
      while (actions.hasNext()) {
        lines.write(actions.next().getBytes(StandardCharsets.UTF_8));
        lines.write('\n');
      }
      lines.flush();
      file.force(true);
    }
  }

  /** Makes the draft the target's only content, or throws FileAlreadyExistsException and leaves the target alone. */
  private void putIfAbsent(java.nio.file.Path draft, java.nio.file.Path target, Path path, Configuration conf)
      throws IOException {
    try {
      Files.createLink(target, draft);
    } catch (FileAlreadyExistsException exists) {
      // A network file system whose first answer was lost is asked again, and then meets its own link.
      if (!Files.isSameFile(draft, target)) {
        throw exists;
      }
    } catch (FileSystemException | UnsupportedOperationException noHardLinks) {
      // Or something else that the other way will say, too. At least the writers of this process wait for each other.
      try (Stream<String> lines = Files.lines(draft)) {
        synchronized (RENAMING) {
          super.write(path, lines.iterator(), false, conf);
        }
      }
    }
  }

  private static boolean isCommit(Path path) {
    return COMMIT.matcher(path.getName()).matches();
  }

  private static java.nio.file.Path local(Path path) {
    return Paths.get(path.toUri().getPath());
  }
}
