;;; build-package.el --- Make the package's tar  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; emacs -Q --batch -l emacs/build-package.el FOLDER [INFO]
;;
;; Writes edn-bridge-VERSION.tar into FOLDER, for `package-install-file',
;; and prints its name.  INFO is the manual, as packaging/manual.sh makes it.
;; Needs the program tar.

;;; Code:

(require 'lisp-mnt)
(require 'package)

(defconst build-package-source (file-name-directory load-file-name)
  "The folder of the package.")

(defun build-package-files ()
  "Return the files that the package consists of."
  (append (seq-remove
           (lambda (file)
             (string-match-p "-\\(?:autoloads\\|pkg\\)\\.el\\'" file))
           (directory-files build-package-source t
                            "\\`edn-bridge[a-z-]*\\.el\\'"))
          (list (expand-file-name "README.md" build-package-source))))

(defun build-package-describe (description file)
  "Write DESCRIPTION, of the package, to FILE.
Emacs 30 warns the user who installs it about a file that does not say how
its variables are bound."
  (package-generate-description-file description file)
  (with-temp-buffer
    (insert-file-contents file)
    (end-of-line)
    (when (and (search-backward "no-byte-compile: t" nil t)
               (not (save-excursion
                      (search-backward "lexical-binding" nil t))))
      (insert "lexical-binding: t; "))
    (write-region nil nil file nil 'quiet)))

(defun build-package-add-manual (info content)
  "Copy the manual INFO to the folder CONTENT, with the file that announces it.
Emacs looks for that file in the folder of each package."
  (copy-file info (expand-file-name "edn-bridge.info" content))
  (write-region
   (concat "This is the file dir, the top of the Info tree of this package.\n\n"
           "\x1f\nFile: dir,\tNode: Top\n\n* Menu:\n\nEmacs\n"
           "* edn-bridge: (edn-bridge).     A bridge between editors and coding agents.\n")
   nil (expand-file-name "dir" content) nil 'quiet))

(defun build-package (folder &optional info)
  "Write the package's tar into FOLDER and return its name.
INFO, where it is not nil, is its manual."
  (let* ((description
          (with-temp-buffer
            (insert-file-contents
             (expand-file-name "edn-bridge.el" build-package-source))
            (package-buffer-info)))
         (version (package-version-join (package-desc-version description)))
         (name (format "edn-bridge-%s" version))
         (tar (expand-file-name (concat name ".tar") folder))
         (work (make-temp-file "edn-bridge-package" t))
         (content (expand-file-name name work)))
    (unwind-protect
        (progn
          (make-directory content)
          (make-directory folder t)
          (dolist (file (build-package-files))
            (copy-file file (file-name-as-directory content)))
          (when info
            (build-package-add-manual info content))
          (build-package-describe
           description (expand-file-name "edn-bridge-pkg.el" content))
          (unless (zerop (call-process "tar" nil nil nil
                                       "-C" work "-cf" tar name))
            (error "Program tar failed"))
          tar)
      (delete-directory work t))))

(when noninteractive
  (princ (format "%s\n" (build-package
                         (or (pop command-line-args-left)
                             (error "Usage: build-package.el FOLDER [INFO]"))
                         (pop command-line-args-left)))))

;;; build-package.el ends here
