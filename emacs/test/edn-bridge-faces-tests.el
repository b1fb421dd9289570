;;; edn-bridge-faces-tests.el --- What a chat shows can be read  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every theme that there is, on terminals of 16.7 million, 256 and 16
;; colours: an Emacs on a terminal of its own measures what is shown
;; (faces-measure.el).  Emacs's own themes are always there; others are where
;; EDN_BRIDGE_PACKAGES says (fetch-packages.sh).

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-packages-tests)

(defconst edn-bridge-faces-tests-terminals
  '((16777216 . "xterm-edntrue|a terminal,
	colors#0x1000000, pairs#0x10000, setb24=\\E[48;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%dm,
	setf24=\\E[38;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%dm, use=xterm-256color,\n")
    (256 . "xterm-edn256|a terminal,\n\tuse=xterm-256color,\n")
    (16 . "xterm-edn16|a terminal,\n\tcolors#16, pairs#256, use=xterm-256color,\n"))
  "Descriptions of terminals, by their number of colours.")

(defun edn-bridge-faces-tests-start (colors description folder)
  "Start an Emacs that measures on a terminal with COLORS in FOLDER.
DESCRIPTION is that of the terminal.  Return its process."
  (let ((source (expand-file-name (format "%d.ti" colors) folder))
        (themes (seq-filter
                 #'file-directory-p
                 (mapcan (lambda (folder)
                           (list folder (expand-file-name "themes" folder)))
                         (edn-bridge-packages-tests-folders)))))
    (write-region description nil source nil 'quiet)
    (with-temp-buffer
      (unless (zerop (call-process "tic" nil t nil "-x" "-o" folder source))
        (ert-fail (buffer-string))))
    (let ((process-environment
           (append
            (list (concat "EDN_BRIDGE_FACES_PACKAGE="
                          (file-name-directory
                           (locate-library "edn-bridge-faces")))
                  (concat "TERM=" (car (split-string description "|")))
                  (concat "TERMINFO=" folder)
                  "COLORTERM" "COLORFGBG"
                  (concat "EDN_BRIDGE_FACES_THEMES="
                          (string-join themes path-separator))
                  (format "EDN_BRIDGE_FACES_OUT=%s/%d.out" folder colors))
            process-environment)))
      (make-process
       :name "edn-bridge-faces"
       :connection-type 'pty
       :noquery t
       :buffer nil
       :command
       (list (expand-file-name invocation-name invocation-directory)
             "-nw" "-Q" "--eval"
             ;; Nobody answers what Emacs asks the terminal.
             "(setq xterm-query-timeout nil xterm-extra-capabilities nil)"
             "-l" (expand-file-name "faces-measure.el"
                                    edn-bridge-test-directory))))))

(defun edn-bridge-faces-tests-results ()
  "Return what was measured, by the number of colours."
  (let* ((folder (make-temp-file "edn-bridge-faces" t))
         (processes
          (pcase-let ((`(,default-directory ,_) (list temporary-file-directory nil)))
            (mapcar (pcase-lambda (`(,colors . ,description))
                      (edn-bridge-faces-tests-start colors description folder))
                    edn-bridge-faces-tests-terminals))))
    (unwind-protect
        (progn
          (with-temp-buffer
            (edn-bridge-test-wait
             (not (cl-some #'process-live-p processes)) 900))
          (mapcar (pcase-lambda (`(,colors . ,_))
                    (let ((file (expand-file-name (format "%d.out" colors)
                                                  folder)))
                      (should (file-exists-p file))
                      (cons colors
                            (with-temp-buffer
                              (insert-file-contents file)
                              (read (current-buffer))))))
                  edn-bridge-faces-tests-terminals))
      (mapc #'delete-process processes)
      (delete-directory folder t))))

(defun edn-bridge-faces-tests-print (results)
  "Print RESULTS as a table, a line a theme."
  (message "%-32s %s" "least contrast: must be read/muted"
           (mapconcat (lambda (result) (format "%12s" (car result)))
                      results ""))
  (dolist (result results)
    (dolist (theme (plist-get (cdr result) :themes))
      (when (plist-member theme :left-out)
        (message "%d colours: %s cannot be loaded: %s" (car result)
                 (plist-get theme :left-out) (plist-get theme :why)))))
  (dolist (theme (plist-get (cdar results) :themes))
    (when (plist-member theme :theme)
      (message
       "%-34s %s" (or (plist-get theme :theme) "(none)")
       (mapconcat
        (lambda (result)
          (let ((row (seq-find (lambda (row)
                                 (and (plist-member row :theme)
                                      (eq (plist-get row :theme)
                                          (plist-get theme :theme))))
                               (plist-get (cdr result) :themes))))
            (if row
                (format "   %4.1f/%4.1f" (plist-get row :read)
                        (plist-get row :muted))
              (make-string 12 ?\s))))
        results "")))))

(ert-deftest edn-bridge-faces-text-can-be-read-in-every-theme ()
  (skip-unless (executable-find "tic"))
  (let ((results (edn-bridge-faces-tests-results)))
    (pcase-dolist (`(,colors . ,result) results)
      (ert-info ((format "%d colours" colors))
        (should-not (plist-get result :error))
        (should (= (plist-get result :colors) colors))
        (should-not (plist-get result :unclassed))
        ;; Emacs's own.
        (should (> (length (plist-get result :themes)) 15))))
    (edn-bridge-faces-tests-print results)
    (should-not
     (mapcan (pcase-lambda (`(,colors . ,result))
               (mapcar (lambda (failure) (cons colors failure))
                       (plist-get result :failures)))
             results))))

;;;; What the faces take from others

(ert-deftest edn-bridge-faces-inherit-nothing-but-the-font-of-code ()
  (dolist (face edn-bridge-faces)
    (ert-info ((symbol-name face))
      (should (face-documentation face))
      (pcase-dolist (`(,_display . ,attributes) (get face 'face-defface-spec))
        (should (memq (plist-get attributes :inherit)
                      '(nil edn-bridge-mono)))))))

(ert-deftest edn-bridge-faces-are-all-in-one-file ()
  (let ((count 0))
    (dolist (file (directory-files
                   (expand-file-name ".." edn-bridge-test-directory)
                   t "\\`edn-bridge.*\\.el\\'"))
      (with-temp-buffer
        (insert-file-contents file)
        (ert-info (file)
          (unless (string-suffix-p "edn-bridge-faces.el" file)
            (should-not (re-search-forward "^(defface" nil t))
            ;; A face of others can have any colour, or none.
            (while (re-search-forward
                    "[:']face[ \n]+'\\([a-z-]+\\)" nil t)
              (unless (member (match-string 1)
                              '("default" "completions-annotations"))
                (setq count (1+ count))
                (should (string-prefix-p "edn-bridge" (match-string 1)))))))))
    (should (> count 50))))

(ert-deftest edn-bridge-faces-settings-of-a-user-win ()
  (unwind-protect
      (progn
        (set-face-attribute 'edn-bridge-title nil :underline t)
        (edn-bridge-faces-compute)
        (should (eq t (face-attribute 'edn-bridge-title :underline)))
        (custom-theme-set-faces 'user '(edn-bridge-button ((t :slant italic))))
        (edn-bridge-faces-compute)
        (should (eq 'italic (face-attribute 'edn-bridge-button :slant)))
        (should (eq 'unspecified
                    (face-attribute 'edn-bridge-button :underline))))
    (custom-theme-reset-faces 'user '(edn-bridge-button nil))
    (face-spec-set 'edn-bridge-title (face-default-spec 'edn-bridge-title)
                   'face-defface-spec)))

;;;; Diffs

(ert-deftest edn-bridge-diff-has-the-colours-of-its-file-and-its-words ()
  (skip-unless (executable-find "diff"))
  (with-temp-buffer
    (insert "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n def f():\n"
            "-    return \"one\"\n+    return \"two\"\n")
    (edn-bridge-diff-add-faces (point-min) (point-max))
    (edn-bridge-test-wait (progn (edn-bridge-markdown-fontify-blocks)
                                 (not edn-bridge-markdown--buffers)))
    (cl-flet ((faces (text)
                (goto-char (point-min))
                (search-forward text)
                (ensure-list (get-text-property (match-beginning 0) 'face))))
      (should (equal (faces "def")
                     '(edn-bridge-on-raised:font-lock-keyword-face
                       edn-bridge-diff-context)))
      (should (equal (faces "f():")
                     '(edn-bridge-on-raised:font-lock-function-name-face
                       edn-bridge-diff-context)))
      (should (equal (faces "return \"one")
                     '(edn-bridge-on-edn-bridge-diff-removed:font-lock-keyword-face
                       edn-bridge-diff-removed)))
      (should (memq 'edn-bridge-diff-refine-removed (faces "one")))
      (should (memq 'edn-bridge-diff-refine-added (faces "two")))
      (should-not (memq 'edn-bridge-diff-refine-added (faces "return \"two"))))))

(ert-deftest edn-bridge-diff-mode-is-not-what-the-text-asks-for ()
  (with-temp-buffer
    (insert "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n"
            "-# -*- mode: ruby -*-\n+# -*- mode: perl; eval: (error \"No\") -*-\n")
    (edn-bridge-diff-add-faces (point-min) (point-max))
    (edn-bridge-test-wait (progn (edn-bridge-markdown-fontify-blocks)
                                 (not edn-bridge-markdown--buffers)))
    (should-not (get-buffer " *edn-bridge-fontify:ruby-mode*"))
    (should-not (get-buffer " *edn-bridge-fontify:perl-mode*"))))

(provide 'edn-bridge-faces-tests)

;;; edn-bridge-faces-tests.el ends here
